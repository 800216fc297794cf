#include "idproxy/base/random.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/hex.hpp"
#include "support/scripted_random.hpp"

namespace idproxy {
namespace random_test {

struct UniformCase {
  const char* name;
  std::uint64_t bound;
  const char* drawn;  // hex
  std::uint64_t result;
};
void PrintTo(const UniformCase& row, std::ostream* out) {
  *out << row.name;
}

class Uniform : public ::testing::TestWithParam<UniformCase> {};

TEST_P(Uniform, SucceedsWithAllBytesUsed) {
  test::ScriptedRandom random(GetParam().drawn);
  EXPECT_EQ(uniform(random, GetParam().bound), GetParam().result);
  EXPECT_EQ(random.left(), 0U);
}

// docs/strategies.md#uniform-random-numbers; limits: 10^12 -> 18446744000000000000, 9 * 10^11 ->
// 18446743800000000000.
INSTANTIATE_TEST_SUITE_P(
    Vectors, Uniform,
    ::testing::Values(
        UniformCase{"LastBelowLimit", 1'000'000'000'000, "ffffffeed6917fff", 999'999'999'999},
        UniformCase{"JustAboveBound", 1'000'000'000'000, "000000e8d4a51001", 1},
        UniformCase{"LimitIsRejected", 1'000'000'000'000, "ffffffeed6918000 0000000000000007", 7},
        UniformCase{"RejectsAsOftenAsNeeded", 1'000'000'000'000,
                    "ffffffffffffffff ffffffeed6918000 0000000000000009", 9},
        UniformCase{"NineTenths", 900'000'000'000, "ffffffc045a3afff", 899'999'999'999},
        UniformCase{"NineTenthsLimitIsRejected", 900'000'000'000,
                    "ffffffc045a3b000 0000000000000001", 1},
        UniformCase{"PowerOfTwoNeverRejects", 256, "ffffffffffffffff", 255},
        UniformCase{"BoundOneIsZero", 1, "ffffffffffffffff", 0}),
    [](const auto& row) { return row.param.name; });

std::vector<std::uint8_t> draw(std::size_t n) {
  std::vector<std::uint8_t> bytes(n);
  system_random().fill(bytes);
  return bytes;
}

TEST(SystemRandom, SucceedsWithEverySizeAroundItsBuffer) {
  for (const std::size_t size : {2047U, 2048U, 2049U, 100'000U}) {
    const auto bytes = draw(size);
    // A piece left unwritten would be a run of zeros.
    const std::vector<std::uint8_t> zeros(16);
    EXPECT_EQ(std::search(bytes.begin(), bytes.end(), zeros.begin(), zeros.end()), bytes.end());
  }
  draw(0);
}

TEST(SystemRandom, SucceedsWithDistinctBytesWithinOneDraw) {
  const auto bytes = draw(160'000);
  std::set<std::vector<std::uint8_t>> seen;
  for (auto at = bytes.begin(); at != bytes.end(); at += 16) {
    EXPECT_TRUE(seen.insert({at, at + 16}).second);
  }
}

TEST(SystemRandom, SucceedsWithDistinctBytes) {
  std::set<std::vector<std::uint8_t>> seen;
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(seen.insert(draw(12)).second);
}

TEST(SystemRandom, SucceedsWithOtherBytesInEachThread) {
  std::array<std::vector<std::uint8_t>, 2> drawn;
  {
    std::jthread one([&] { drawn[0] = draw(16); });
    std::jthread two([&] { drawn[1] = draw(16); });
  }
  EXPECT_NE(drawn[0], drawn[1]);
}

TEST(SystemRandom, SucceedsWithOtherBytesAndGenerationInAChildOfFork) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not support fork";
#endif
  draw(8);  // fills the buffer that the child inherits
  const std::uint64_t generation = system_random().generation();
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto bytes = draw(16);
    bytes.push_back(system_random().generation() != generation);
    const bool sent = ::write(pipe[1], bytes.data(), bytes.size()) == 17;
    ::_exit(sent ? 0 : 1);
  }
  ::close(pipe[1]);
  std::vector<std::uint8_t> received(17);
  EXPECT_EQ(::read(pipe[0], received.data(), received.size()), 17);
  ::close(pipe[0]);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(received.back(), 1) << "generation did not change in the child";
  received.pop_back();
  EXPECT_NE(received, draw(16));
  EXPECT_EQ(system_random().generation(), generation);
}

}  // namespace random_test
}  // namespace idproxy
