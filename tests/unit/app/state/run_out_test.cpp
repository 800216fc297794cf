#include "app/state/run_out.hpp"

#include <gtest/gtest.h>

#include "support/fake_clock.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::app::state {
namespace run_out_test {

using namespace std::chrono_literals;
using ids::CounterNumbers;
using End = RunOut::End;
using Warnings = std::vector<RunOut::Warning>;

struct RunOutTest : ::testing::Test {
  /// A counter of 1 to 100,000 that has so many left, `after` the last look.
  void update(std::uint64_t left, std::chrono::nanoseconds after = 1min,
              std::optional<CounterNumbers::Width> width = {}, std::string sequence = {}) {
    CounterNumbers numbers{.next = 1, .held = 0, .left = left};
    numbers.all = 100'000;
    numbers.width = width;
    all.push_back({0, "shop.orders", numbers, std::move(sequence)});
    run_out.update(rules, all, now += after, wall);
    all.clear();
  }

  std::vector<rewrite::Rule> rules{test::rule("shop.orders", "number")};
  std::vector<ids::RuleNumbers> all;
  std::chrono::nanoseconds now = 5h;
  std::chrono::nanoseconds wall = test::FakeClock::kStart;
  RunOut run_out;
};

TEST_F(RunOutTest, WarnsFromAHundredthOn) {
  update(1001);
  EXPECT_EQ(run_out.current(), Warnings{});
  for (std::uint64_t left = 1001; left > 1000; --left)
    update(left, 70min);  // hardly any in an hour
  update(1000, 70min);
  EXPECT_EQ(run_out.current(), (Warnings{{0, "shop.orders", End::max, 1000, 0}}));
  EXPECT_EQ(run_out.current().front().text(), "1000 numbers are left up to max");
}

TEST_F(RunOutTest, WarnsIfADayTakesMore) {
  update(50'000);
  update(48'000, 30min);
  EXPECT_EQ(run_out.current(), Warnings{}) << "24 times 2,000 were used in this hour";
  update(47'000, 20min);
  EXPECT_EQ(run_out.current(), (Warnings{{0, "shop.orders", End::max, 47'000, 3000}}));
  EXPECT_EQ(run_out.current().front().text(),
            "47000 numbers are left up to max; at the rate of the last hour they last 15 hours");
  update(47'000, 90min);
  EXPECT_EQ(run_out.current(), Warnings{}) << "nothing was used in the last hour";
}

TEST_F(RunOutTest, ARaisedMaxIsNoUse) {
  update(2000);
  update(90'000);
  update(89'990);
  EXPECT_EQ(run_out.current(), Warnings{});
}

TEST_F(RunOutTest, WarnsBeforeATemplateWidens) {
  update(90'000, 1min, CounterNumbers::Width{9, 999});
  EXPECT_EQ(run_out.current(), (Warnings{{0, "shop.orders", End::width, 9, 0}}));
  EXPECT_EQ(run_out.current().front().text(),
            "9 numbers are left in the template's width, and then values get longer");
  update(89'000, 1min, CounterNumbers::Width{0, 999});
  EXPECT_EQ(run_out.current(), Warnings{}) << "it has widened";
}

/// What is left has the words of the rule's own keys, and so has the remedy.
TEST_F(RunOutTest, NamesTheKeyThatEndsTheNumbers) {
  ::setenv("IDPROXY_RUN_OUT_KEY", "2b7e151628aed2a6abf7158809cf4f3c", 1);
  static const test::FakeClock clock;
  static test::ScriptedRandom random;
  struct Case {
    const char* strategy;
    test::FakeParameters::Table keys;
    const char* text;
    const char* way_out;
  };
  const Case kCases[] = {
      {"counter", {}, "up to max", "raise max"},
      {"counter", {{"step", "-1"}}, "down to max", "lower max"},
      {"counter-ranges", {{"ranges.count", "3"}}, "in all ranges", "raise ranges.count"},
      {"permuted",
       {{"key.env", "IDPROXY_RUN_OUT_KEY"}, {"output", "string"}},
       "of this length",
       "give the rule more digits"},
      {"permuted",
       {{"key.env", "IDPROXY_RUN_OUT_KEY"}, {"output", "string"}, {"max", "999"}},
       "up to max",
       "raise max"},
  };
  for (const Case& each : kCases) {
    auto keys = each.keys;
    keys.insert({{"ns", "shop.orders"}, {"field", "number"}});
    rules[0].strategy = test::make_strategy(each.strategy, keys, {clock, random});
    ASSERT_TRUE(rules[0].strategy) << each.strategy;
    update(7);
    ASSERT_EQ(run_out.current().size(), 1U) << each.strategy;
    const RunOut::Warning& warning = run_out.current().front();
    EXPECT_EQ(warning.text(), std::string("7 numbers are left ") + each.text);
    EXPECT_TRUE(warning.way_out().starts_with(each.way_out)) << warning.way_out();
  }
}

TEST_F(RunOutTest, SaysNothingAtTheEnd) {
  update(0);
  EXPECT_EQ(run_out.current(), Warnings{});
}

TEST_F(RunOutTest, TheSequenceThatEndsFirstCounts) {
  for (const std::uint64_t left : {500U, 20U, 900U}) {
    CounterNumbers numbers{.next = 1, .held = 0, .left = left};
    numbers.all = 100'000;
    all.push_back({0, "shop.orders", numbers, std::to_string(left)});
  }
  update(50'000, 1min, {}, "another");
  EXPECT_EQ(run_out.current(), (Warnings{{0, "shop.orders", End::max, 20, 0}}));
}

TEST_F(RunOutTest, WarnsOfDigits) {
  all.push_back({0, "shop.orders", ids::SpaceUse{{}, 0.899, 0.9, 100'000}});
  run_out.update(rules, all, now, wall);
  EXPECT_EQ(run_out.current(), (Warnings{{0, "shop.orders", End::max_fill, 100, 0}}));
}

TEST_F(RunOutTest, CountsNoFurtherThanAnIntegerDoes) {
  all.push_back({0, "shop.orders", ids::SpaceUse{{}, 0.1, 0.9, 9e33}});
  run_out.update(rules, all, now, wall);
  EXPECT_EQ(run_out.current(), Warnings{});
}

TEST_F(RunOutTest, TellsTheLogEveryHourAndWhenHalfIsUsed) {
  update(900);
  EXPECT_EQ(run_out.take_news().size(), 1U);
  update(460);
  EXPECT_EQ(run_out.take_news().size(), 0U);
  update(450);
  EXPECT_EQ(run_out.take_news().size(), 1U);
  update(449, 59min);
  EXPECT_EQ(run_out.take_news().size(), 0U);
  update(449, 1min);
  EXPECT_EQ(run_out.take_news().size(), 1U);
}

TEST_F(RunOutTest, KnowsWhenTheNumbersEnd) {
  update(50'000);
  EXPECT_EQ(run_out.outlooks().front()->at_hour_rate, std::nullopt) << "no rate yet";
  update(49'000, 10min);
  EXPECT_EQ(run_out.outlooks().front(),
            (RunOut::Outlook{.left = 49'000, .at_hour_rate = 490min, .at_day_rate = 490min}));
  for (int i = 0; i < 23; ++i) update(49'000, 1h);
  const auto outlook = run_out.outlooks().front();
  EXPECT_EQ(outlook->at_hour_rate, std::nullopt) << "none was used within the hour";
  ASSERT_NE(outlook->at_day_rate, std::nullopt);
  EXPECT_NEAR(std::chrono::duration<double>(*outlook->at_day_rate).count(), 49.0 * 23.16 * 3600,
              49.0 * 3600);
  for (int i = 0; i < 25; ++i) update(49'000, 1h);
  EXPECT_EQ(run_out.outlooks().front()->at_day_rate, std::nullopt);
}

TEST_F(RunOutTest, PeriodsThatHaveEndedDoNotCount) {
  static const test::FakeClock clock;
  static test::ScriptedRandom random;
  rules[0].strategy = test::make_strategy(
      "counter",
      {{"ns", "shop.orders"}, {"field", "number"}, {"reset", "yearly"}, {"max", "100000"}},
      {clock, random});
  CounterNumbers numbers{.next = 99'994, .held = 0, .left = 7};
  numbers.all = 100'000;
  all.push_back({0, "shop.orders", numbers, "last year's", "2021"});
  run_out.update(rules, all, now, wall);
  EXPECT_EQ(run_out.current(), Warnings{});
  EXPECT_EQ(run_out.outlooks().front(), std::nullopt);
  all.push_back({0, "shop.orders", numbers, "this year's", "2022"});
  run_out.update(rules, all, now, wall);
  EXPECT_EQ(run_out.current(), (Warnings{{0, "shop.orders", End::max, 7, 0}}));
}

TEST_F(RunOutTest, OfSeveralCountersTheFirstToEndCounts) {
  const auto both = [&](std::uint64_t a, std::uint64_t b, std::chrono::nanoseconds after) {
    for (const auto& [left, sequence] : {std::pair(a, "a"), std::pair(b, "b")}) {
      CounterNumbers numbers{.next = 1, .held = 0, .left = left};
      numbers.all = 100'000;
      all.push_back({0, "shop.orders", numbers, sequence});
    }
    run_out.update(rules, all, now += after, wall);
    all.clear();
  };
  both(90'000, 10'000, 1min);
  EXPECT_EQ(run_out.outlooks().front()->left, 10'000U) << "the fewer";
  both(80'000, 10'000, 10min);
  EXPECT_EQ(run_out.outlooks().front()->left, 80'000U) << "only these are used";
}

}  // namespace run_out_test
}  // namespace idproxy::app::state
