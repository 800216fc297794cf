#include "idproxy/log/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace idproxy::log {
namespace log_test {

using ::testing::MatchesRegex;

/// What the process writes to standard error while `f` runs.
template <class F>
std::string written(F f, const Options& options = {Level::info, Format::json}) {
  catch_up();  // with what an earlier test has left
  ::testing::internal::CaptureStderr();
  start(options);  // it is another standard error
  f();
  return ::testing::internal::GetCapturedStderr();
}

std::ptrdiff_t lines_of(const std::string& text, std::string_view event) {
  std::ptrdiff_t lines = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.find(std::string("\"event\":\"").append(event) + "\"") != std::string::npos) ++lines;
  }
  return lines;
}

TEST(Log, WritesOneLineOfJson) {
  const std::string line = written([] {
    event(Level::warning, "some_event", "a sentence", {{"text", "value"}, {"number", 42}});
  });
  EXPECT_THAT(
      line, MatchesRegex(
                R"(\{"time":"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z",)"
                R"("level":"warning","event":"some_event","text":"value","number":42,)"
                R"("message":"a sentence"\})"
                "\n"));
}

TEST(Log, WritesALineOfTextWithTheEventThatThePagesAreSortedBy) {
  const std::string line = written(
      [] {
        event(Level::warning, "some_event", "a sentence", {{"text", "two words"}, {"number", 42}});
      },
      {Level::info, Format::text});
  EXPECT_THAT(line,
              MatchesRegex("20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} "
                           "warning some_event  a sentence  "
                           "text=\"two words\" number=42\n"));
}

/// What the process writes if systemd has put `stream` into its environment as the journal's;
/// "here" stands for standard error.
std::string written_beside_journal(std::string stream, Format format) {
  ::testing::internal::CaptureStderr();
  if (stream == "here") {
    struct stat status{};
    EXPECT_EQ(::fstat(STDERR_FILENO, &status), 0);
    stream = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  }
  ::setenv("JOURNAL_STREAM", stream.c_str(), 1);
  start({Level::debug, format});
  ::unsetenv("JOURNAL_STREAM");
  event(Level::debug, "first", "a");
  event(Level::info, "second", "b");
  event(Level::warning, "third", "c");
  event(Level::error, "fourth", "d");
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, TellsTheJournalThePriorityOfEachLine) {
  EXPECT_THAT(written_beside_journal("here", Format::json),
              MatchesRegex("<7>\\{\"time\":.*\"debug\".*\n<6>\\{\"time\":.*\"info\".*\n"
                           "<4>\\{\"time\":.*\"warning\".*\n<3>\\{\"time\":.*\"error\".*\n"));
  EXPECT_THAT(written_beside_journal("here", Format::text),
              MatchesRegex("<7>20[-0-9:. ]+ debug   first.*\n<6>20[-0-9:. ]+ info    second.*\n"
                           "<4>20[-0-9:. ]+ warning third.*\n<3>20[-0-9:. ]+ error   fourth.*\n"));
}

TEST(Log, LeavesThePriorityOutWhereStandardErrorIsNotTheJournal) {
  for (const char* stream : {"", "0:0", "8:"}) {
    const std::string lines = written_beside_journal(stream, Format::json);
    EXPECT_TRUE(lines.starts_with("{\"time\"")) << lines;
    EXPECT_EQ(lines.find('<'), std::string::npos) << lines;
  }
}

TEST(Log, EscapesWhatAPeerMayHaveChosen) {
  const std::string line = written(
      [] { event(Level::info, "escaped", "", {{"ns", std::string("a\"\\\n\0\x7f{}", 8)}}); });
  EXPECT_NE(line.find("\"ns\":\"a\\\"\\\\\\u000a\\u0000\\u007f{}\""), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(Log, KeepsCharactersOfOtherLanguages) {
  constexpr std::string_view kName =
      "B\xc3\xbc"
      "cher.\xe6\x9c\xac.\xf0\x9f\x93\x9a";
  for (const Format format : {Format::json, Format::text}) {
    const std::string line =
        written([&] { event(Level::info, "named", "m", {{"ns", kName}}); }, {Level::info, format});
    EXPECT_NE(line.find(kName), std::string::npos) << line;
  }
}

TEST(Log, EscapesCharactersThatAreNotShownByCodePoint) {
  // A control character of two bytes (CSI, 8 bits), a line separator, a right-to-left override.
  const std::string line = written(
      [] { event(Level::info, "hidden", "", {{"ns", "\xc2\x9b.\xe2\x80\xa8.\xe2\x80\xae"}}); });
  EXPECT_NE(line.find("\"ns\":\"\\u009b.\\u2028.\\u202e\""), std::string::npos) << line;
}

TEST(Log, ReplacesBytesThatAreNoUtf8) {
  const std::string line =
      written([] { event(Level::info, "broken", "", {{"ns", "a\xff\xc3z\xed\xa0\x80"}}); });
  constexpr std::string_view kReplaced = "\xef\xbf\xbd";
  std::string expected = "\"ns\":\"a";
  expected.append(kReplaced).append(kReplaced) += 'z';
  expected.append(kReplaced).append(kReplaced).append(kReplaced) += '"';
  EXPECT_NE(line.find(expected), std::string::npos) << line;
}

TEST(Log, EscapesTheSentenceForPeopleToo) {
  const std::string line =
      written([] { event(Level::info, "escaped", "shop.a\n00:00:00 error \x1b[31mforged"); },
              {Level::info, Format::text});
  EXPECT_NE(line.find("shop.a\\u000a00:00:00 error \\u001b[31mforged"), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST(Log, LeavesOutWhatIsBelowItsLevel) {
  EXPECT_EQ(written([] { event(Level::debug, "quiet", ""); }), "");
  EXPECT_FALSE(enabled(Level::debug));
}

TEST(Log, BoundsTheLinesOfOneEvent) {
  const std::string lines = written([] {
    for (int i = 0; i < 1000; ++i) event(Level::info, "storm", "again");
    event(Level::info, "another", "not held back by it");
  });
  // Ten a second; the storm may have met a new second.
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 31);
  EXPECT_NE(lines.find("another"), std::string::npos);
}

TEST(Log, ReportsWhatItLeftOut) {
  const auto before = counts().suppressed;
  const std::string lines = written([] {
    for (int i = 0; i < 1000; ++i) event(Level::warning, "flood", "again");
    catch_up();
    catch_up();
  });
  const auto left_out = counts().suppressed - before;
  ASSERT_GE(left_out, 960U);
  const std::string last = lines.substr(lines.rfind('\n', lines.size() - 2) + 1);
  EXPECT_NE(last.find("\"level\":\"warning\",\"event\":\"flood\",\"suppressed\":"),
            std::string::npos)
      << last;
  // All of them, whichever line says so: the flood may have met a new second.
  std::uint64_t reported = 0;
  constexpr std::string_view kKey = "\"suppressed\":";
  for (auto at = lines.find(kKey); at != std::string::npos; at = lines.find(kKey, at + 1)) {
    reported += std::stoull(lines.substr(at + kKey.size()));
  }
  EXPECT_EQ(reported, left_out);
}

TEST(Log, SaysToPeopleWhatItLeftOut) {
  const std::string lines = written(
      [] {
        for (int i = 0; i < 100; ++i) event(Level::info, "deluge", "again");
        catch_up();
      },
      {Level::info, Format::text});
  EXPECT_NE(lines.find(" more lines of deluge  suppressed="), std::string::npos) << lines;
}

TEST(Log, ChangesItsLevelWhileOthersLog) {
  const std::string lines = written([] {
    std::jthread other([](const std::stop_token& over) {
      while (!over.stop_requested()) event(Level::debug, "debugging", "");
    });
    for (int i = 0; i < 100; ++i) set_level(i % 2 == 0 ? Level::debug : Level::error);
    set_level(Level::warning);
    event(Level::info, "too_low", "");
    event(Level::warning, "high_enough", "");
    EXPECT_FALSE(enabled(Level::info));
  });
  EXPECT_EQ(lines_of(lines, "too_low"), 0);
  EXPECT_EQ(lines_of(lines, "high_enough"), 1);
}

TEST(Log, KeepsLinesOfThreadsApart) {
  const std::string lines = written([] {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int n = 0; n < 100; ++n) event(Level::info, "crowd", std::string(500, 'x'));
      });
    }
  });
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    EXPECT_TRUE(line.starts_with("{\"time\"") && line.ends_with("}")) << line;
  }
}

TEST(Log, SaysHowManyLinesNobodyTook) {
  catch_up();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const int kept = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  start({Level::info, Format::json});
  const auto dropped_before = counts().dropped;
  static constexpr std::array kEvents{"flow0", "flow1", "flow2", "flow3", "flow4",
                                      "flow5", "flow6", "flow7", "flow8", "flow9"};
  for (const char* name : kEvents) {
    for (int i = 0; i < 10; ++i) event(Level::info, name, std::string(8000, 'x'));
  }
  const auto dropped = counts().dropped - dropped_before;
  EXPECT_GT(dropped, 0U) << "800 kB into a pipe of 64, and 256 kept";
  std::string all;
  std::jthread reader([&] {
    char some[65536];
    for (ssize_t n = 1; n > 0;) {
      n = ::read(ends[0], some, sizeof some);
      if (n > 0) all.append(some, static_cast<std::size_t>(n));
    }
  });
  finish(std::chrono::seconds(10));  // what was kept
  finish(std::chrono::seconds(10));  // and now there is room to say so
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(ends[1]);
  start({Level::info, Format::json});  // lets go of the pipe
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(std::ranges::count(all, '\n'), static_cast<std::ptrdiff_t>(101 - dropped));
  const std::string last = all.substr(all.rfind('\n', all.size() - 2) + 1);
  EXPECT_NE(last.find("\"event\":\"log_lines_dropped\",\"lines\":" + std::to_string(dropped)),
            std::string::npos)
      << last;
}

}  // namespace log_test
}  // namespace idproxy::log
