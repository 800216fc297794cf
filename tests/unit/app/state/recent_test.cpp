#include "app/state/recent.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "support/rule_set.hpp"

namespace idproxy::app::state {
namespace recent_test {

using namespace std::chrono_literals;
using Values = std::vector<std::optional<double>>;

struct RecentTest : ::testing::Test {
  RecentTest() { net.listeners.push_back({.listener = "a", .server = "db1", .up = true}); }

  void sample(std::chrono::nanoseconds after = 1s) {
    recent.sample(net, store, *rules, now += after);
  }
  /// The server answers so many requests, each in this time.
  void answers(std::uint64_t requests, std::size_t bucket) {
    net.listeners[0].requests += requests;
    net.listeners[0].reply_time.counts[bucket] += requests;
  }

  net::ServerStatistics net;
  id_store::StoreStatistics store;
  std::shared_ptr<const rewrite::RuleSet> rules =
      test::rule_set_of(test::rule("shop.orders", "number"));
  Recent recent;
  std::chrono::nanoseconds now = 1h;
};

TEST_F(RecentTest, HasRatesFromTheSecondLookOn) {
  net.listeners[0].requests = 1000;
  sample();
  net.listeners[0].requests += 10;
  sample();
  net.listeners[0].requests += 10;
  sample(2s);
  EXPECT_EQ(recent.series(Recent::requests), (Values{{}, 10, 5}));
}

TEST_F(RecentTest, LooksOnceASecond) {
  sample();
  sample(500ms);
  sample(499ms);
  EXPECT_EQ(recent.series(Recent::clients).size(), 1U);
  sample(1ms);
  EXPECT_EQ(recent.series(Recent::clients).size(), 2U);
}

TEST_F(RecentTest, KeepsTenMinutes) {
  for (std::size_t i = 0; i < Recent::kSeconds + 5; ++i) {
    net.connections_open = i;
    sample();
  }
  const Values clients = recent.series(Recent::clients);
  ASSERT_EQ(clients.size(), Recent::kSeconds);
  EXPECT_EQ(clients.front(), 5);
}

TEST_F(RecentTest, KnowsTheMostEverAndTheMostLately) {
  net.connections_open = 9;
  sample();
  for (std::size_t i = 0; i < Recent::kSeconds; ++i) {
    net.connections_open = i == 3 ? 7 : 2;
    sample();
  }
  const Peak clients = recent.peak(Recent::open_clients);
  EXPECT_EQ(clients.most_lately, 7U);
  EXPECT_EQ(clients.most, 9U);
}

TEST_F(RecentTest, AReloadThatForgetsCountsIsNoNegativeRate) {
  rules->outcomes(0).assigned += 100;
  sample();
  rules = test::rule_set_of(test::rule("shop.orders", "number"));
  sample(20s);
  EXPECT_EQ(recent.series(Recent::values).back(), 0);
  EXPECT_EQ(recent.values_per_second(0), 0);
}

TEST_F(RecentTest, KnowsHowFastARuleGivesValues) {
  sample();
  EXPECT_EQ(recent.values_per_second(0), 0);
  rules->outcomes(0).assigned += 50;
  sample(10s);
  EXPECT_EQ(recent.values_per_second(0), 5);
  EXPECT_EQ(recent.values_per_second(1), 0) << "there is no such rule";
}

TEST_F(RecentTest, TimesOfTheLastMinuteAreThoseThatCount) {
  answers(100, 10);
  sample();
  EXPECT_EQ(recent.reply_time("db1"), std::nullopt) << "this may be from long ago";
  answers(100, 10);
  sample(10s);
  EXPECT_NEAR(recent.reply_time("db1")->p50, 0.075, 0.001);
  for (int i = 0; i < 8; ++i) sample(10s);
  EXPECT_EQ(recent.reply_time("db1"), std::nullopt) << "nobody has asked it";
  answers(100, 4);
  sample(10s);
  EXPECT_LT(recent.reply_time("db1")->p99, 0.0011);
  EXPECT_EQ(recent.reply_time("db2"), std::nullopt);
}

TEST(Quantile, LiesWithinItsBucket) {
  metrics::HistogramValues values;
  EXPECT_EQ(quantile(values, 0.5), std::nullopt);
  values.counts[4] = 10;  // 0.5 ms to 1 ms
  EXPECT_NEAR(*quantile(values, 0.5), 0.00075, 1e-9);
  EXPECT_NEAR(*quantile(values, 1), 0.001, 1e-9);
  values.counts.back() = 10;
  EXPECT_EQ(quantile(values, 0.99), 10) << "the last bound, for what is longer";
}

}  // namespace recent_test
}  // namespace idproxy::app::state
