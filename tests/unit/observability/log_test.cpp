#include "idproxy/observability/log.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace idproxy::log {
namespace {

/// What the process writes to standard error while `f` runs.
template <class F>
std::string written(F f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

class Log : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { start({Level::info, Format::json}); }
};

TEST_F(Log, WritesOneLineOfJson) {
  const std::string line = written([] {
    event(Level::warning, "some_event", "a sentence", {{"text", "value"}, {"number", 42}});
  });
  EXPECT_TRUE(line.starts_with("{\"time\":\"20"));
  EXPECT_TRUE(
      line.ends_with("\"level\":\"warning\",\"event\":\"some_event\",\"text\":\"value\","
                     "\"number\":42,\"message\":\"a sentence\"}\n"))
      << line;
}

TEST_F(Log, EscapesWhatAPeerMayHaveChosen) {
  const std::string line = written(
      [] { event(Level::info, "escaped", "", {{"ns", std::string("a\"\\\n\0\xff{}", 8)}}); });
  EXPECT_NE(line.find("\"ns\":\"a\\\"\\\\\\u000a\\u0000\\u00ff{}\""), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST_F(Log, EscapesTheSentenceForPeopleToo) {
  start({Level::info, Format::text});
  const std::string line =
      written([] { event(Level::info, "escaped", "shop.a\n00:00:00 error \x1b[31mforged"); });
  start({Level::info, Format::json});
  EXPECT_NE(line.find("shop.a\\u000a00:00:00 error \\u001b[31mforged"), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
}

TEST_F(Log, LeavesOutWhatIsBelowItsLevel) {
  EXPECT_EQ(written([] { event(Level::debug, "quiet", ""); }), "");
  EXPECT_FALSE(enabled(Level::debug));
}

TEST_F(Log, BoundsTheLinesOfOneEvent) {
  const std::string lines = written([] {
    for (int i = 0; i < 1000; ++i) event(Level::info, "storm", "again");
    event(Level::info, "another", "not held back by it");
  });
  // Ten a second; the storm may have met a new second.
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 31);
  EXPECT_NE(lines.find("another"), std::string::npos);
}

}  // namespace
}  // namespace idproxy::log
