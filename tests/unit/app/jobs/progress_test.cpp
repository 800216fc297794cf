#include "app/jobs/progress.hpp"

#include <gtest/gtest.h>

namespace idproxy::app::jobs {
namespace progress_test {

using namespace std::chrono_literals;

TEST(ProgressText, SaysHowFarItIs) {
  EXPECT_EQ(progress_line({.done = 430'000, .total = 1'000'000, .per_second = 8120}),
            "430,000 of 1,000,000 documents (43 %), 8,120 a second, 1 min 11 s left");
  EXPECT_EQ(progress_line({.done = 0, .total = 10}), "0 of 10 documents (0 %)");
  EXPECT_EQ(progress_line({.done = 10, .total = 10, .per_second = 5}),
            "10 of 10 documents (100 %), 5 a second");
  EXPECT_EQ(progress_line({}), "0 of 0 documents (100 %)");
}

TEST(ProgressText, DrawsABarAsWideAsThereIsRoom) {
  const Progress half{.done = 50, .total = 100, .per_second = 10};
  EXPECT_EQ(progress_bar(half, 57), "[==========>         ]  50 %  50 of 100  10/s  5.0 s left");
  EXPECT_EQ(progress_bar(half, 58).size(), 58U);
  EXPECT_EQ(progress_bar(half, 1000).size(), progress_bar(half, 200).size());
  EXPECT_EQ(progress_bar(half, 20), "50 %  50 of 100  10/");
  EXPECT_EQ(progress_bar({.done = 7, .total = 7}, 27), "[==========]  100 %  7 of 7");
  for (std::size_t columns = 0; columns < 100; ++columns) {
    EXPECT_LE(progress_bar(half, columns).size(), columns);
  }
}

TEST(RecentRateTest, IsThatOfTheLastHalfMinute) {
  RecentRate rate;
  EXPECT_EQ(rate.add(0s, 0), 0);
  EXPECT_EQ(rate.add(500ms, 50), 100);
  for (int second = 1; second <= 60; ++second) {
    (void)rate.add(std::chrono::seconds(second), static_cast<std::uint64_t>(second) * 100);
  }
  double slower = 0;
  for (int second = 61; second <= 91; ++second) {
    slower =
        rate.add(std::chrono::seconds(second), 6000 + static_cast<std::uint64_t>(second - 60) * 10);
  }
  EXPECT_DOUBLE_EQ(slower, 10);
}

TEST(SparseLinesTest, ComeEachTenSecondsAndOnceAMinuteLater) {
  SparseLines lines(100s);
  std::vector<int> at;
  for (int second = 0; second <= 300; ++second) {
    if (lines.is_due(100s + std::chrono::seconds(second))) at.push_back(second);
  }
  EXPECT_EQ(at, (std::vector{10, 20, 30, 40, 50, 60, 120, 180, 240, 300}));
}

TEST(PaceTest, SpreadsWorkEvenly) {
  Pace pace(100);
  EXPECT_EQ(pace.until_next(0s, 100), 0s);
  EXPECT_EQ(pace.until_next(200ms, 50), 800ms);
  EXPECT_EQ(pace.until_next(1s, 100), 500ms);
}

TEST(PaceTest, DoesNotSaveUpUnusedTime) {
  Pace pace(10);
  EXPECT_EQ(pace.until_next(0s, 10), 0s);
  EXPECT_EQ(pace.until_next(60s, 10), 0s);
  EXPECT_EQ(pace.until_next(60s, 10), 1s);
}

TEST(PaceTest, WithoutALimitNeverWaits) {
  Pace pace(0);
  EXPECT_EQ(pace.until_next(0s, 1'000'000), 0s);
  EXPECT_EQ(pace.until_next(0s, 1), 0s);
}

}  // namespace progress_test
}  // namespace idproxy::app::jobs
