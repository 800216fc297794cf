#include "rewrite/retries.hpp"

#include <gtest/gtest.h>

#include "support/lending_source.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"

namespace idproxy::rewrite {
namespace retry_budget_test {

using namespace std::chrono_literals;

/// The assignments of two rules, for `a` and `b`.
class Budget : public ::testing::Test {
 protected:
  void rules(Retry a, Retry b) {
    auto first = test::rule("shop.*", "a");
    auto second = test::rule("shop.*", "b");
    first.retry = a;
    second.retry = b;
    for (Rule* rule : {&first, &second}) {
      rule->strategy = test::shared_source<test::LendingSource>(std::make_shared<test::Lending>());
    }
    rules_ = test::rule_set_of(std::move(first), std::move(second));
    plan_ = rules_->plan("shop", "orders");
  }
  std::optional<RetryBound> forbids(RetryBudget& budget, std::uint32_t repeats,
                                    std::chrono::nanoseconds now) {
    const std::vector<const Assignment*> taken = {&plan_[0], &plan_[1]};
    return budget.forbids(taken, repeats, now);
  }

  [[nodiscard]] std::chrono::nanoseconds patience_of(const RetryBudget& budget, std::size_t rule,
                                                     std::chrono::nanoseconds now) const {
    return budget.patience(*plan_[rule].rule, *plan_[rule].source, now);
  }

  std::shared_ptr<const RuleSet> rules_;
  Plan plan_;
};

TEST_F(Budget, EndsWithTheAttemptsOfEachRule) {
  rules({.attempts = 3}, {.attempts = 2});
  RetryBudget budget({}, 0s);
  budget.start(0s);
  EXPECT_EQ(forbids(budget, 0, 0s), std::nullopt);
  EXPECT_EQ(forbids(budget, 1, 0s), std::nullopt);
  EXPECT_EQ(forbids(budget, 2, 0s), RetryBound::attempts);
}

TEST_F(Budget, EndsWithTheDeadlineOfEachRule) {
  rules({.deadline = 2s}, {.deadline = 1s});
  RetryBudget budget({}, 0s);
  budget.start(10s);
  budget.start(10'900ms);  // runs already
  EXPECT_EQ(forbids(budget, 0, 10'999ms), std::nullopt);
  EXPECT_EQ(forbids(budget, 0, 11s), RetryBound::deadline);
  budget.end();
  budget.start(20s);
  EXPECT_EQ(forbids(budget, 0, 20'999ms), std::nullopt);
}

/// A batch that gets on has as much time again for the next statement.
TEST_F(Budget, CountsTheDeadlineFromTheLastProgress) {
  rules({.deadline = 1s}, {});
  RetryBudget budget({}, 0s);
  budget.progress(5s);  // nothing runs yet
  budget.start(10s);
  budget.progress(10'900ms);
  EXPECT_EQ(forbids(budget, 0, 11'899ms), std::nullopt);
  EXPECT_EQ(forbids(budget, 0, 11'900ms), RetryBound::deadline);
}

TEST_F(Budget, CountsThePauseInTheDeadline) {
  rules({.backoff = 20ms, .deadline = 1s}, {});
  RetryBudget budget({}, 0s);
  budget.start(0s);
  EXPECT_EQ(forbids(budget, 0, 979ms), std::nullopt);
  EXPECT_EQ(forbids(budget, 0, 980ms), RetryBound::deadline);
}

TEST_F(Budget, EndsWithTheClientsTime) {
  rules({.backoff = 20ms}, {});
  RetryBudget budget(100, 5s);
  EXPECT_EQ(budget.time_left(5'040ms), 60);
  EXPECT_EQ(RetryBudget({}, 5s).time_left(5'040ms), std::nullopt);
  budget.start(5s);
  EXPECT_EQ(forbids(budget, 0, 5'079ms), std::nullopt);
  EXPECT_EQ(forbids(budget, 0, 5'080ms), RetryBound::max_time);
}

/// It doubles with each repetition, up to its bound; the longest of all counts.
TEST_F(Budget, PausesForTheLongestBackoff) {
  rules({.backoff = 4ms, .backoff_max = 10ms}, {.backoff = 6ms, .backoff_max = 7ms});
  const std::pair<std::uint32_t, std::chrono::nanoseconds> rows[] = {{0, 6ms}, {1, 8ms}, {2, 10ms}};
  for (const auto& [repeats, pause] : rows) {
    RetryBudget budget({}, 0s);
    budget.start(0s);
    ASSERT_EQ(forbids(budget, repeats, 0s), std::nullopt);
    ASSERT_EQ(forbids(budget, 0, 0s), std::nullopt);
    test::ScriptedRandom least("0000000000000000");
    EXPECT_EQ(budget.take_pause(least), pause / 2);
    test::ScriptedRandom none;
    EXPECT_EQ(budget.take_pause(none), 0s);  // the next one is counted anew
  }
}

/// One that may not go again leaves the pause as it is.
TEST_F(Budget, DoesNotPauseForWhatStaysBehind) {
  rules({.backoff = 20ms}, {.attempts = 0});
  RetryBudget budget({}, 0s);
  budget.start(0s);
  EXPECT_EQ(forbids(budget, 0, 0s), RetryBound::attempts);
  test::ScriptedRandom none;
  EXPECT_EQ(budget.take_pause(none), 0s);
}

TEST_F(Budget, GivesTheStoreWhatIsLeft) {
  rules({.deadline = 5s}, {.deadline = 1s});
  RetryBudget budget({}, 0s);
  budget.start(10s);
  EXPECT_EQ(patience_of(budget, 0, 10s), ids::Source::kPatience);
  EXPECT_EQ(patience_of(budget, 0, 14s), 1s);
  EXPECT_EQ(patience_of(budget, 1, 10'400ms), 600ms);
  EXPECT_EQ(patience_of(budget, 1, 12s), 0s);
}

}  // namespace retry_budget_test
}  // namespace idproxy::rewrite
