#include "log/line_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

namespace idproxy::log {
namespace line_writer_test {

using namespace std::chrono_literals;

/// Both ends of something that lines can be written to. The reading end does not wait either.
class Ends : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);  // NOLINT(bugprone-unused-return-value): as the program does
    const std::string kind = GetParam();
    if (kind == "socket") {
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    } else {
      ASSERT_EQ(::pipe(ends_), 0);
    }
    ASSERT_EQ(::fcntl(ends_[0], F_SETFL, O_NONBLOCK), 0);
  }
  void TearDown() override {
    close_reader();
    ::close(ends_[1]);
  }

  [[nodiscard]] int writing() const { return ends_[1]; }
  void close_reader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }
  [[nodiscard]] std::string read_all() const {
    std::string all;
    char some[4096];
    for (;;) {
      const ssize_t n = ::read(ends_[0], some, sizeof some);
      if (n <= 0) return all;
      all.append(some, static_cast<std::size_t>(n));
    }
  }

 private:
  int ends_[2] = {-1, -1};
};

INSTANTIATE_TEST_SUITE_P(LineWriter, Ends, ::testing::Values("pipe", "socket"),
                         [](const auto& kind) { return std::string(kind.param); });

std::string numbered(std::size_t i) {
  return std::to_string(i) + std::string(100, '.') + "\n";
}

TEST_P(Ends, WritesAtOnce) {
  LineWriter writer(writing());
  writer.write("one\n");
  EXPECT_EQ(read_all(), "one\n");
  writer.write(std::string(10'000, 'x') + "\n");
  EXPECT_EQ(read_all(), std::string(10'000, 'x') + "\n");
  EXPECT_FALSE(writer.is_behind());
}

TEST_P(Ends, DropsAndCountsWhatNobodyReads) {
  LineWriter writer(writing());
  constexpr std::size_t kLines = 20'000;  // 2 MB: more than the reader's side and ours hold
  for (std::size_t i = 0; i < kLines; ++i) writer.write(numbered(i));
  EXPECT_TRUE(writer.is_behind());
  EXPECT_GT(writer.dropped(), 0U);
  std::string all;
  while (writer.is_behind()) {
    all += read_all();
    writer.flush();
  }
  all += read_all();
  std::string expected;
  for (std::size_t i = 0; i < kLines - writer.dropped(); ++i) expected += numbered(i);
  EXPECT_EQ(all, expected);  // whole lines, in order; those that came last are missing
  writer.write("again\n");
  EXPECT_EQ(read_all(), "again\n");
}

TEST_P(Ends, WaitsForAReaderWhenToldSo) {
  LineWriter writer(writing());
  for (std::size_t i = 0; i < 4000; ++i) writer.write(numbered(i));
  ASSERT_TRUE(writer.is_behind());
  std::string all;
  std::jthread reader([&](const std::stop_token& over) {
    while (!over.stop_requested()) all += read_all();
  });
  writer.flush(10s);
  EXPECT_FALSE(writer.is_behind());
  reader.request_stop();
  reader.join();
  all += read_all();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'),
            static_cast<std::ptrdiff_t>(4000 - writer.dropped()));
}

TEST_P(Ends, GivesUpWaitingInTime) {
  LineWriter writer(writing());
  for (std::size_t i = 0; i < 4000; ++i) writer.write(numbered(i));
  const auto start = std::chrono::steady_clock::now();
  writer.flush(50ms);
  EXPECT_TRUE(writer.is_behind());
  EXPECT_GE(std::chrono::steady_clock::now() - start, 50ms);
}

TEST_P(Ends, CountsWhatAReaderThatHasGoneMisses) {
  LineWriter writer(writing());
  close_reader();
  for (std::size_t i = 0; i < 5; ++i) writer.write(numbered(i));
  EXPECT_EQ(writer.dropped(), 5U);
  EXPECT_FALSE(writer.is_behind());
}

TEST_P(Ends, LeavesTheDescriptorAsItIs) {
  const int flags = ::fcntl(writing(), F_GETFL);
  const LineWriter writer(writing());
  EXPECT_EQ(::fcntl(writing(), F_GETFL), flags);
}

TEST(LineWriter, AppendsToAFile) {
  char name[] = "/tmp/idproxy-line-writer-XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  ASSERT_EQ(::write(file, "first\n", 6), 6);
  LineWriter writer(file);
  writer.write("second\n");
  char text[32]{};
  EXPECT_EQ(::pread(file, text, sizeof text, 0), 13);
  EXPECT_STREQ(text, "first\nsecond\n");
  ::close(file);
}

TEST(LineWriter, CountsWhatNoDescriptorTakes) {
  const int closed = ::dup(STDERR_FILENO);
  ::close(closed);
  LineWriter writer(closed);
  writer.write("one\n");
  EXPECT_EQ(writer.dropped(), 1U);
}

}  // namespace line_writer_test
}  // namespace idproxy::log
