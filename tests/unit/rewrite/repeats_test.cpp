#include "rewrite/retries.hpp"

#include <gtest/gtest.h>

#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace repeats_test {

class RepeatsTest : public ::testing::Test {
 protected:
  using Statements = std::vector<std::int32_t>;

  /// "resent cured given_up", of the rule.
  [[nodiscard]] std::string counts(std::size_t rule) const {
    const RuleOutcomes& outcomes = rules_->outcomes(rule);
    return std::to_string(outcomes.resent) + ' ' + std::to_string(outcomes.cured) + ' ' +
           std::to_string(outcomes.given_up);
  }

  std::shared_ptr<const RuleSet> rules_ =
      test::rule_set_of(test::rule("shop.*", "a"), test::rule("shop.*", "b"));
  Plan plan_ = rules_->plan("shop", "orders");
  Repeats repeats_;
};

TEST_F(RepeatsTest, CountsEachSendingOnce) {
  repeats_.add(3, plan_[0]);
  EXPECT_EQ(counts(0), "0 0 0");
  repeats_.sent(Statements{1, 2});  // another piece goes first
  EXPECT_EQ(counts(0), "0 0 0");
  repeats_.sent(Statements{3, 4});
  repeats_.sent(Statements{3, 4});  // of the tail of an ordered batch, for another's sake
  EXPECT_EQ(counts(0), "1 0 0");
  EXPECT_EQ(repeats_.of(3, plan_[0]), 1U);
  EXPECT_EQ(repeats_.of(4, plan_[0]), 0U);
}

TEST_F(RepeatsTest, CountsForTheRuleThatCollidedLast) {
  repeats_.add(3, plan_[0]);
  repeats_.sent(Statements{3});
  repeats_.add(3, plan_[1]);
  repeats_.sent(Statements{3});
  EXPECT_EQ(repeats_.of(3, plan_[0]), 1U) << "what others use up is not this rule's";
  EXPECT_EQ(repeats_.of(3, plan_[1]), 1U);
  repeats_.tried(Statements{2, 3}, {});
  EXPECT_EQ(counts(0), "1 0 0");
  EXPECT_EQ(counts(1), "1 1 0");
  EXPECT_FALSE(repeats_.contains(3));
  EXPECT_EQ(repeats_.of(3, plan_[0]), 0U);
}

TEST_F(RepeatsTest, CuresNoneThatFailedOrWasNotTried) {
  for (const std::int32_t statement : {1, 2, 3}) repeats_.add(statement, plan_[0]);
  repeats_.sent(Statements{1, 2, 3});
  std::map<std::int32_t, Buffer> errors;
  errors.emplace(2, Buffer());
  repeats_.tried(Statements{1, 2}, errors);
  EXPECT_EQ(counts(0), "3 1 0");
  EXPECT_TRUE(repeats_.contains(2));
  EXPECT_TRUE(repeats_.contains(3));
}

TEST_F(RepeatsTest, NamesTheLastOneGivenUp) {
  EXPECT_EQ(repeats_.given_up().rule, nullptr);
  repeats_.give_up(plan_[1], RetryBound::deadline);
  EXPECT_EQ(repeats_.given_up().rule, &plan_[1]);
  EXPECT_EQ(repeats_.given_up().ended_by, RetryBound::deadline);
  repeats_.add(3, plan_[0]);
  repeats_.abandon(Statements{2, 3}, RetryBound::max_time);
  EXPECT_EQ(repeats_.given_up().rule, &plan_[0]);
  EXPECT_EQ(repeats_.given_up().ended_by, RetryBound::max_time);
  EXPECT_EQ(counts(0), "0 0 1");
  EXPECT_EQ(counts(1), "0 0 1");
}

}  // namespace repeats_test
}  // namespace idproxy::rewrite
