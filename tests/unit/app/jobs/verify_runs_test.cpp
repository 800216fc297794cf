#include "app/jobs/verify_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace idproxy::app::jobs {
namespace verify_runs_test {

using Gaps = std::vector<VerifyRuns::Gap>;

VerifyRuns runs_of(const std::vector<std::int64_t>& numbers, std::int64_t step = 1) {
  VerifyRuns runs(step);
  for (const std::int64_t number : numbers) runs.add(number);
  return runs;
}

TEST(VerifyRuns, AreOneWithoutGaps) {
  const VerifyRuns runs = runs_of({1, 2, 3, 4});
  EXPECT_EQ(runs.first(), 1);
  EXPECT_EQ(runs.last(), 4);
  EXPECT_EQ(runs.numbers(), 4U);
  EXPECT_EQ(runs.missing(), 0U);
  EXPECT_EQ(runs.gaps(9), Gaps());
}

TEST(VerifyRuns, HaveGaps) {
  const VerifyRuns runs = runs_of({1, 2, 5, 9, 10});
  EXPECT_EQ(runs.missing(), 5U);
  EXPECT_EQ(runs.gap_count(), 2U);
  EXPECT_EQ(runs.gaps(9), Gaps({{3, 4}, {6, 8}}));
  EXPECT_EQ(runs.gaps(1), Gaps({{3, 4}}));
}

/// As texts without leading zeros are sorted.
TEST(VerifyRuns, TakeNumbersInAnyOrderAndTwice) {
  const VerifyRuns runs = runs_of({1, 10, 11, 12, 2, 3, 4, 5, 6, 7, 8, 9, 9, 10});
  EXPECT_EQ(runs.numbers(), 12U);
  EXPECT_EQ(runs.missing(), 0U);
  EXPECT_EQ(runs.gap_count(), 0U);
}

TEST(VerifyRuns, CountInSteps) {
  EXPECT_EQ(runs_of({1, 6, 11, 26}, 5).missing(), 2U);
  EXPECT_EQ(runs_of({-10, -8, -2}, -2).missing(), 2U);
  EXPECT_EQ(runs_of({1, 4, 6}, 5).missing(), 0U) << "other numbers are no step apart";
}

TEST(VerifyRuns, ReachTheEndsOfInt64) {
  using Limits = std::numeric_limits<std::int64_t>;
  const VerifyRuns runs = runs_of({Limits::min(), Limits::max()});
  EXPECT_EQ(runs.missing(), std::numeric_limits<std::uint64_t>::max() - 1);
  EXPECT_EQ(runs.gaps(9), Gaps({{Limits::min() + 1, Limits::max() - 1}}));
}

TEST(VerifyRuns, CountTheLowestGapsAsFinalIfThereAreTooMany) {
  VerifyRuns runs(1, 4);
  for (std::int64_t number = 0; number < 1000; number += 2) runs.add(number);
  EXPECT_EQ(runs.numbers(), 500U);
  EXPECT_EQ(runs.missing(), 499U);
  EXPECT_EQ(runs.gap_count(), 499U);
  EXPECT_EQ(runs.gaps(3), Gaps({{1, 1}, {3, 3}, {5, 5}}));
  EXPECT_EQ(runs.first(), 0);
  EXPECT_EQ(runs.last(), 998);
}

TEST(VerifyRuns, SayThatGapsWereClosed) {
  VerifyRuns runs(1, 2);
  for (const std::int64_t number : {5, 1}) runs.add(number);
  EXPECT_FALSE(runs.has_closed());
  runs.add(3);
  EXPECT_TRUE(runs.has_closed());
}

TEST(VerifyRuns, AreWhatASetOfTheNumbersSays) {
  std::mt19937_64 random(33);
  for (int round = 0; round < 200; ++round) {
    std::set<std::int64_t> numbers;
    VerifyRuns runs(1);
    for (int i = 0; i < 60; ++i) {
      const auto number = static_cast<std::int64_t>(random() % 100);
      numbers.insert(number);
      runs.add(number);
    }
    const auto span = static_cast<std::uint64_t>(*numbers.rbegin() - *numbers.begin()) + 1;
    EXPECT_EQ(runs.numbers(), numbers.size());
    EXPECT_EQ(runs.missing(), span - numbers.size());
    for (const auto& [first, last] : runs.gaps(100)) {
      for (std::int64_t number = first; number <= last; ++number) {
        EXPECT_FALSE(numbers.contains(number));
      }
      EXPECT_TRUE(numbers.contains(first - 1) && numbers.contains(last + 1));
    }
  }
}

}  // namespace verify_runs_test
}  // namespace idproxy::app::jobs
