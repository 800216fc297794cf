#include "app/rule_statistics.hpp"

#include <gtest/gtest.h>

#include "support/rule_set.hpp"

namespace idproxy::app {
namespace rule_statistics_test {

using ids::CounterNumbers;
using ids::SpaceUse;

std::vector<rewrite::Rule> rules() {
  std::vector<rewrite::Rule> rules;
  rules.push_back(test::rule("shop.orders", "number"));
  rules.push_back(test::rule("shop.*", "code"));
  return rules;
}

TEST(RuleStatistics, AreNoneOfARuleWithoutNumbers) {
  const auto statistics = statistics_of(rules(), {});
  ASSERT_EQ(statistics.size(), 2U);
  EXPECT_FALSE(statistics[0].next || statistics[0].held || statistics[0].left ||
               statistics[0].fullest);
}

TEST(RuleStatistics, OfOneCounterAreItsOwn) {
  const auto statistics =
      statistics_of(rules(), {{0, "shop.orders", CounterNumbers{1001, 99, 9000}}});
  EXPECT_EQ(statistics[0].next, 1001);
  EXPECT_EQ(statistics[0].held, 99U);
  EXPECT_EQ(statistics[0].left, 9000U);
  EXPECT_FALSE(statistics[1].held);
}

TEST(RuleStatistics, OfSeveralCountersHaveTheFewestLeft) {
  const auto statistics = statistics_of(rules(), {{1, "shop.a", CounterNumbers{5, 10, 700}},
                                                  {1, "shop.b", CounterNumbers{{}, 1, {}}},
                                                  {1, "shop.c", CounterNumbers{9, 20, 300}}});
  EXPECT_FALSE(statistics[1].next) << "of which one?";
  EXPECT_EQ(statistics[1].held, 31U);
  EXPECT_EQ(statistics[1].left, 300U);
}

TEST(RuleStatistics, OfACounterOfAllCollectionsAreItsOwn) {
  const auto statistics = statistics_of(rules(), {{1, "shop.*", CounterNumbers{5, 10, 700}}});
  EXPECT_EQ(statistics[1].next, 5);
}

TEST(RuleStatistics, OfRangesHaveThoseThatAreLive) {
  const auto statistics = statistics_of(
      rules(), {{0, "shop.orders", CounterNumbers{5, 10, 700, CounterNumbers::Ranges{3, 1000}}}});
  EXPECT_EQ(statistics[0].left, 700U);
  EXPECT_EQ(statistics[0].live_ranges, 3U);
  EXPECT_FALSE(statistics[1].live_ranges);
}

TEST(RuleStatistics, OfSpacesAreThoseOfTheFullest) {
  const auto statistics = statistics_of(rules(), {{1, "shop.a", SpaceUse{10, 0.01, 0.9}},
                                                  {1, "shop.b", SpaceUse{{}, 0.5, 0.9}},
                                                  {1, "shop.c", SpaceUse{20, 0.02, 0.9}}});
  ASSERT_TRUE(statistics[1].fullest);
  EXPECT_EQ(statistics[1].fullest->fill, 0.5);
  EXPECT_FALSE(statistics[1].fullest->documents);
}

}  // namespace rule_statistics_test
}  // namespace idproxy::app
