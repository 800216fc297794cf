#include "idproxy/ids/refill_pace.hpp"

#include <gtest/gtest.h>

namespace idproxy::ids {
namespace refill_pace_test {

using namespace std::chrono_literals;
using Time = std::chrono::nanoseconds;

CounterSpec::Block fixed(std::uint32_t size, double prefetch = 0.5) {
  CounterSpec::Block block;
  block.size = size;
  block.prefetch = prefetch;
  return block;
}

/// A refill of as many numbers as the pace says. `used`: numbers used so far.
void refill(RefillPace& pace, Time now, std::uint64_t used, Time duration = 0s) {
  pace.note(now, used);
  pace.started(now, used);
  pace.succeeded(now + duration, pace.size());
}

// --- fixed sizes ---

TEST(RefillPace, AFixedSizeStays) {
  RefillPace pace(fixed(100));
  EXPECT_EQ(pace.threshold(), 50U);
  refill(pace, 1s, 0);
  refill(pace, 2s, 1'000'000);
  EXPECT_EQ(pace.size(), 100U);
  EXPECT_EQ(pace.threshold(), 50U);
}

TEST(RefillPace, TheThresholdIsTheSmallestIntegerThatIsNotBelow) {
  EXPECT_EQ(RefillPace(fixed(3)).threshold(), 2U);  // 1 < 1.5, but not 2
  EXPECT_EQ(RefillPace(fixed(3, 0)).threshold(), 0U);
  EXPECT_EQ(RefillPace(fixed(1, 0.95)).threshold(), 0U);
}

TEST(RefillPace, SlowRefillsStartEarlier) {
  RefillPace pace(fixed(1000, 0.1));
  refill(pace, 0s, 0, 200ms);
  EXPECT_EQ(pace.threshold(), 100U);  // the rate is not known yet
  refill(pace, 1s, 1000, 100ms);      // 1000 per second
  EXPECT_EQ(pace.threshold(), 400U);  // two of the slowest refills
  refill(pace, 2s, 10'000);
  EXPECT_EQ(pace.threshold(), 1000U);  // never more than a block
}

TEST(RefillPace, OneSlowRefillInAHundredIsForgotten) {
  RefillPace pace(fixed(1000, 0));
  refill(pace, 0s, 0, 500ms);
  for (int i = 1; i < 100; ++i) refill(pace, i * 1s, static_cast<std::uint64_t>(i) * 1000, 10ms);
  EXPECT_EQ(pace.threshold(), 20U);
}

TEST(RefillPace, AnotherSizeCountsWithWhatHasBeenMeasured) {
  RefillPace pace(fixed(1000, 0));
  refill(pace, 1s, 0);
  refill(pace, 2s, 1000, 100ms);  // 1000 per second
  EXPECT_EQ(pace.threshold(), 200U);
  pace.change(fixed(500, 0));
  EXPECT_EQ(pace.size(), 500U);
  EXPECT_EQ(pace.threshold(), 200U);
  pace.change(fixed(50, 0));
  EXPECT_EQ(pace.threshold(), 50U);
}

// --- auto ---

/// A pace whose last block, taken at `now`, has a hundred numbers; `used` is what it counts from.
RefillPace at_a_hundred(Time now, std::uint64_t used = 0) {
  RefillPace pace{CounterSpec::Block{}};
  pace.note(now, used);
  pace.started(now, used);
  pace.succeeded(now, 100);  // a batch
  pace.note(now, used);
  return pace;
}

TEST(RefillPace, AutoBeginsWithOneNumber) {
  RefillPace pace{CounterSpec::Block{}};
  EXPECT_EQ(pace.size(), 1U);
  EXPECT_EQ(pace.threshold(), 0U);
  refill(pace, 1h, 0, 5ms);
  EXPECT_EQ(pace.size(), 1U);
  EXPECT_EQ(pace.threshold(), 0U);
}

TEST(RefillPace, AutoTakesWhatTenSecondsNeed) {
  RefillPace pace = at_a_hundred(100s);
  refill(pace, 105s, 70);
  EXPECT_EQ(pace.size(), 70U);
  refill(pace, 110s, 140);
  EXPECT_EQ(pace.size(), 140U);
  refill(pace, 120s, 240);
  EXPECT_EQ(pace.size(), 100U);
  refill(pace, 125s, 240);  // between 115 s and 120 s, half of 100
  EXPECT_EQ(pace.size(), 50U);
}

TEST(RefillPace, AutoGrowsToTwiceAndShrinksToHalfAtMost) {
  RefillPace pace = at_a_hundred(100s);
  refill(pace, 101s, 100'000);
  EXPECT_EQ(pace.size(), 200U);
  refill(pace, 102s, 200'000);
  EXPECT_EQ(pace.size(), 400U);
  refill(pace, 115s, 200'001);
  EXPECT_EQ(pace.size(), 200U);
}

TEST(RefillPace, AutoForgetsABlockThatIsOver) {
  RefillPace pace = at_a_hundred(100s);
  pace.note(100s, 100);
  refill(pace, 119s, 100);
  EXPECT_EQ(pace.size(), 50U);
  refill(pace, 139s, 101);
  EXPECT_EQ(pace.size(), 1U);
}

TEST(RefillPace, AutoStaysBetweenOneAndTenThousand) {
  RefillPace pace{CounterSpec::Block{}};
  std::uint64_t used = 0;
  for (int i = 0; i < 30; ++i) {
    refill(pace, 100s + i * 10ms, used);
    used += 1'000'000;
  }
  EXPECT_EQ(pace.size(), 10'000U);
  for (int i = 1; i < 20; ++i) refill(pace, 100s + i * 19s, used);
  EXPECT_EQ(pace.size(), 1U);
}

TEST(RefillPace, AutoAfterABatchOfAHundredThousand) {
  RefillPace pace{CounterSpec::Block{}};
  pace.note(100s, 0);
  pace.started(100s, 0);
  pace.succeeded(100s, 100'000);
  pace.note(100s, 100'000);
  refill(pace, 101s, 100'000);
  EXPECT_EQ(pace.size(), 10'000U);
  refill(pace, 115s, 100'000);
  EXPECT_EQ(pace.size(), 5'000U);
}

TEST(RefillPace, AutoCountsAllOfTenSecondsOfManyRefills) {
  RefillPace pace{CounterSpec::Block{}};
  for (std::uint64_t i = 0; i <= 3000; ++i) {  // 100 per second
    refill(pace, 100s + static_cast<std::int64_t>(i) * 10ms, i);
  }
  EXPECT_NEAR(static_cast<double>(pace.size()), 1000, 1);
}

TEST(RefillPace, AutoDoesNotCountWhatCameBack) {
  RefillPace pace = at_a_hundred(100s, 1000);
  pace.note(101s, 1090);
  refill(pace, 105s, 1070);
  EXPECT_EQ(pace.size(), 70U);
  refill(pace, 106s, 900);  // more than were used
  EXPECT_EQ(pace.size(), 35U);
}

TEST(RefillPace, AutoStartsARefillWhenTheRestLastsForTwoOfThem) {
  RefillPace pace = at_a_hundred(100s);
  refill(pace, 110s, 1000, 50ms);  // 100 per second
  EXPECT_EQ(pace.size(), 200U);
  EXPECT_EQ(pace.threshold(), 10U);
  refill(pace, 110s + 100ms, 1001, 50ms);  // 10 per second
  EXPECT_EQ(pace.threshold(), 1U);
  refill(pace, 111s, 100'000, 50ms);
  EXPECT_EQ(pace.threshold(), pace.size());
}

TEST(RefillPace, AnOutageIsNoLackOfDemand) {
  RefillPace pace = at_a_hundred(100s);
  refill(pace, 105s, 100);
  for (int i = 0; i < 40; ++i) pace.started(106s + i * 250ms, 200);
  EXPECT_EQ(pace.size(), 93U);  // and not half of it 40 times
}

TEST(RefillPace, BetweenFixedAndAuto) {
  RefillPace pace(fixed(500));
  refill(pace, 100s, 0);
  refill(pace, 105s, 300);
  pace.change(CounterSpec::Block{});
  EXPECT_EQ(pace.size(), 500U);
  refill(pace, 106s, 360);
  EXPECT_EQ(pace.size(), 360U);
  pace.change(fixed(7));
  EXPECT_EQ(pace.size(), 7U);
}

}  // namespace refill_pace_test
}  // namespace idproxy::ids
