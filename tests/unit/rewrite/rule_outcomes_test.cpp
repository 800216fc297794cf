#include "idproxy/rewrite/rule_outcomes.hpp"

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

// ---- the log ---------------------------------------------------------------------------------

using Count = std::optional<std::uint64_t>;

TEST(RareLines, HasALineOnceAnHourWithWhatCameSince) {
  RareLines log(1h);
  const auto add = [&](std::uint64_t upserts, std::chrono::nanoseconds now) {
    return log.add("shop.orders", "empty_update", upserts, now);
  };
  EXPECT_EQ(add(3, 5s), Count(3));
  EXPECT_EQ(add(1, 6s), Count());
  EXPECT_EQ(add(2, 1h + 4s), Count());
  EXPECT_EQ(add(4, 1h + 5s), Count(7));
  EXPECT_EQ(add(1, 2h), Count());
  EXPECT_EQ(add(1, 5h), Count(2));
}

TEST(RareLines, HasALineForEachNamespaceAndReason) {
  RareLines log(1h);
  EXPECT_EQ(log.add("shop.a", "empty_update", 1, 1s), Count(1));
  EXPECT_EQ(log.add("shop.b", "empty_update", 2, 2s), Count(2));
  EXPECT_EQ(log.add("shop.a", "too_large", 3, 3s), Count(3));
  EXPECT_EQ(log.add("shop.a", "empty_update", 4, 4s), Count());
  EXPECT_EQ(log.add("shop.b", "empty_update", 5, 1h + 1s), Count());
  EXPECT_EQ(log.add("shop.a", "empty_update", 6, 1h + 1s), Count(10));
}

TEST(WaitingRequests, KnowsHowManyWaitAndSinceWhen) {
  WaitingRequests waiting;
  EXPECT_EQ(waiting.summary().number, 0U);
  std::optional<WaitingRequests::Place> first(std::in_place, waiting, 3s);
  {
    const WaitingRequests::Place second(waiting, 2s);
    const WaitingRequests::Place third(waiting, 3s);
    EXPECT_EQ(waiting.summary().number, 3U);
    EXPECT_EQ(waiting.summary().oldest, 2s);
  }
  EXPECT_EQ(waiting.summary().number, 1U);
  EXPECT_EQ(waiting.summary().oldest, 3s);
  first.emplace(waiting, 5s);
  EXPECT_EQ(waiting.summary().number, 1U);
  EXPECT_EQ(waiting.summary().oldest, 5s);
  first.reset();
  EXPECT_EQ(waiting.summary().number, 0U);
}

/// However many namespaces a client makes up.
TEST(RareLines, HasABoundedNumberOfLines) {
  RareLines log(1h);
  std::size_t lines = 0;
  const auto invent = [&](std::size_t first, std::chrono::nanoseconds now) {
    for (std::size_t i = first; i < first + 5000; ++i) {
      const auto count = log.add("db." + std::to_string(i), "reserved", 1, now);
      lines += count.has_value() ? 1U : 0U;
    }
  };
  invent(0, 1s);
  EXPECT_EQ(lines, RareLines::kMostLines + 1);
  EXPECT_EQ(log.add("db.0", "reserved", 1, 2s), Count()) << "it has a line";
  // The lines that say nothing more make room, db.0 does not.
  lines = 0;
  invent(5000, 2h);
  EXPECT_GE(lines, RareLines::kMostLines - 2);
  EXPECT_LE(lines, RareLines::kMostLines + 1);
  EXPECT_EQ(log.add("db.0", "reserved", 1, 2h), Count(2));
}

}  // namespace outcomes_test
}  // namespace idproxy::rewrite
