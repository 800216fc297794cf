#include "idproxy/ids/refill_pace.hpp"

#include <gtest/gtest.h>

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;

CounterSpec::Block adaptive(std::uint32_t size) {
  CounterSpec::Block block;
  block.size = size;
  block.adaptive = true;
  block.min = 5;
  block.max = 1000;
  block.target = 10s;
  return block;
}

/// A refill that takes no time.
void refill(RefillPace& pace, std::chrono::nanoseconds now, std::uint64_t taken) {
  pace.started(now, taken);
  pace.succeeded(now);
}

TEST(RefillPace, AFixedSizeStays) {
  CounterSpec::Block block;
  block.size = 100;
  RefillPace pace(block);
  EXPECT_EQ(pace.threshold(), 50U);
  refill(pace, 1s, 0);
  refill(pace, 2s, 1'000'000);
  EXPECT_EQ(pace.size(), 100U);
  EXPECT_EQ(pace.threshold(), 50U);
}

TEST(RefillPace, TheThresholdIsTheSmallestIntegerThatIsNotBelow) {
  CounterSpec::Block block;
  block.size = 3;
  EXPECT_EQ(RefillPace(block).threshold(), 2U);  // 1 < 1.5, but not 2
  block.prefetch = 0;
  EXPECT_EQ(RefillPace(block).threshold(), 0U);
  block = {};
  block.size = 1;
  block.prefetch = 0.95;
  EXPECT_EQ(RefillPace(block).threshold(), 0U);
}

TEST(RefillPace, SlowRefillsStartEarlier) {
  CounterSpec::Block block;
  block.size = 1000;
  block.prefetch = 0.1;
  RefillPace pace(block);
  pace.started(0s, 0);
  pace.succeeded(200ms);
  EXPECT_EQ(pace.threshold(), 100U);  // the rate is not known yet
  pace.started(1s, 1000);             // 1000 per second
  pace.succeeded(1100ms);
  EXPECT_EQ(pace.threshold(), 400U);  // two of the slowest refills
  pace.started(2s, 10'000);
  EXPECT_EQ(pace.threshold(), 1000U);  // never more than a block
}

TEST(RefillPace, OneSlowRefillInAHundredIsForgotten) {
  CounterSpec::Block block;
  block.size = 1000;
  block.prefetch = 0;
  RefillPace pace(block);
  pace.started(0s, 0);
  pace.succeeded(500ms);
  for (int i = 1; i < 100; ++i) {
    pace.started(i * 1s, static_cast<std::uint64_t>(i) * 1000);
    pace.succeeded(i * 1s + 10ms);
  }
  EXPECT_EQ(pace.threshold(), 20U);
}

TEST(RefillPace, TheSizeFollowsTheDemand) {
  RefillPace pace(adaptive(100));
  refill(pace, 100s, 0);
  EXPECT_EQ(pace.size(), 100U);
  refill(pace, 110s, 150);  // 15 per second: 150 for ten seconds
  EXPECT_EQ(pace.size(), 150U);
  refill(pace, 111s, 10'000);
  EXPECT_EQ(pace.size(), 300U);  // twice at most
  refill(pace, 1000s, 10'001);
  EXPECT_EQ(pace.size(), 150U);  // half at least
}

TEST(RefillPace, TheSizeStaysBetweenMinAndMax) {
  RefillPace pace(adaptive(700));
  refill(pace, 1s, 0);
  refill(pace, 2s, 1'000'000);
  EXPECT_EQ(pace.size(), 1000U);
  for (int i = 1; i < 12; ++i) refill(pace, i * 1h, 1'000'000);
  EXPECT_EQ(pace.size(), 5U);
}

TEST(RefillPace, AnOutageIsNoLackOfDemand) {
  RefillPace pace(adaptive(100));
  refill(pace, 10s, 0);
  refill(pace, 20s, 100);
  for (int i = 0; i < 40; ++i) pace.started(30s + i * 250ms, 200);
  EXPECT_EQ(pace.size(), 51U);  // 100 in 19.75 s; not half of the size 40 times
}

TEST(RefillPace, NoTimeBetweenRefillsSaysNothing) {
  RefillPace pace(adaptive(100));
  refill(pace, 10s, 0);
  refill(pace, 10s, 1000);
  EXPECT_EQ(pace.size(), 100U);
}

TEST(RefillPace, AnotherSizeCountsWithWhatHasBeenMeasured) {
  CounterSpec::Block block;
  block.size = 1000;
  block.prefetch = 0;
  RefillPace pace(block);
  refill(pace, 1s, 0);
  pace.started(2s, 1000);  // 1000 per second
  pace.succeeded(2100ms);
  EXPECT_EQ(pace.threshold(), 200U);
  block.size = 500;
  pace.change(block);
  EXPECT_EQ(pace.size(), 500U);
  EXPECT_EQ(pace.threshold(), 200U);
  block.size = 50;
  pace.change(block);
  EXPECT_EQ(pace.threshold(), 50U);
}

}  // namespace
}  // namespace idproxy::ids
