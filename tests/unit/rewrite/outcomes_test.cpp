#include "idproxy/rewrite/outcomes.hpp"

#include <gtest/gtest.h>

namespace idproxy::rewrite {
namespace outcomes_test {

using namespace std::chrono_literals;

/// `now`, by steps; how many aborts in a row may run again.
TEST(RuleOutcomes, LetATransactionRunAgainSoManyTimesInARow) {
  RuleOutcomes rule;
  EXPECT_FALSE(rule.in_a_row());
  EXPECT_TRUE(rule.may_run_again(1s, 2));
  EXPECT_TRUE(rule.in_a_row());
  EXPECT_TRUE(rule.may_run_again(2s, 2));
  EXPECT_FALSE(rule.may_run_again(3s, 2));
  // Ten seconds from the first on, not from the last.
  EXPECT_FALSE(rule.may_run_again(10s, 2));
  EXPECT_TRUE(rule.may_run_again(11s + 1ms, 2));
  EXPECT_TRUE(rule.may_run_again(12s, 2));
  EXPECT_FALSE(rule.may_run_again(13s, 2));
  rule.went_well();
  EXPECT_FALSE(rule.in_a_row());
  EXPECT_TRUE(rule.may_run_again(13s, 2));
}

TEST(RuleOutcomes, NeverLetATransactionRunAgainWithoutAttempts) {
  RuleOutcomes rule;
  EXPECT_FALSE(rule.may_run_again(1s, 0));
  EXPECT_FALSE(rule.may_run_again(20s, 0));
  EXPECT_FALSE(rule.in_a_row());
}

TEST(RuleOutcomes, AreLoggedOnceAnHour) {
  RuleOutcomes outcomes;
  EXPECT_TRUE(outcomes.may_log_forwarded(5s));
  EXPECT_FALSE(outcomes.may_log_forwarded(6s));
  EXPECT_FALSE(outcomes.may_log_forwarded(1h + 4s));
  EXPECT_TRUE(outcomes.may_log_forwarded(1h + 5s));
  EXPECT_FALSE(outcomes.may_log_forwarded(2h));
}

}  // namespace outcomes_test
}  // namespace idproxy::rewrite
