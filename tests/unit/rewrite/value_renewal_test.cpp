#include "rewrite/retries.hpp"

#include <gtest/gtest.h>

#include "support/lending_source.hpp"
#include "support/replies.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace value_renewal_test {

using namespace test;
using ids::Errc;

/// Statements with values of two rules, `a` and `b`: statement i has value i + 1 of each.
class Renewal : public ::testing::Test {
 protected:
  void give(std::int32_t statements) {
    given_.values.resize(plan_.size());
    for (std::int32_t i = 0; i < statements; ++i) {
      for (std::uint16_t rule = 0; rule < plan_.size(); ++rule) {
        store_i64(given_.values[rule].add(bson::Type::int64, 8), i + 1);
        given_.given.push_back({i, rule, static_cast<std::uint32_t>(i)});
      }
    }
    a_->next = b_->next = 101;
  }
  /// Duplicates of these statements, on these fields.
  std::vector<Collision> collisions(const std::vector<std::int32_t>& statements,
                                    const std::vector<std::string>& fields) {
    std::vector<std::string> entries;
    std::vector<WriteError> errors;
    for (std::size_t i = 0; i < statements.size(); ++i) {
      entries.push_back(duplicate(static_cast<std::int32_t>(i), fields));
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      errors.push_back({static_cast<std::int32_t>(i), 11000, as_bytes(entries[i])});
    }
    auto found = taken_.collisions_in(errors, statements);
    for (Collision& collision : found) collision.again = true;
    return found;
  }
  /// The values that the statements have now: "a b, a b".
  [[nodiscard]] std::string values() const {
    std::string text;
    for (const Given& each : given_.given) {
      const Bytes value = given_.values[each.assignment][each.value];
      text += (text.empty()           ? ""
               : each.assignment == 0 ? ", "
                                      : " ") +
              std::to_string(load_i64(value.data()));
    }
    return text;
  }
  /// The statements that go again.
  std::string again() {
    std::string text;
    for (const Collision& collision : renewal_.take()) {
      if (collision.again) text += (text.empty() ? "" : " ") + std::to_string(collision.statement);
    }
    return text;
  }

  static Rule lent(const char* field, std::shared_ptr<Lending> lending) {
    auto rule = test::rule("shop.*", field);
    rule.strategy = shared_source<LendingSource>(std::move(lending));
    return rule;
  }

  std::shared_ptr<Lending> a_ = std::make_shared<Lending>();
  std::shared_ptr<Lending> b_ = std::make_shared<Lending>();
  std::shared_ptr<const RuleSet> rules_ = rule_set_of(lent("a", a_), lent("b", b_));
  Plan plan_ = rules_->plan("shop", "orders");
  GivenValues given_;
  TakenValues taken_{plan_, given_, "shop.orders"};
  ValueRenewal renewal_{plan_, given_, taken_};
};

/// As after each reply in a transaction.
TEST_F(Renewal, DrawsNothingBeforeItsStart) {
  std::vector<Assignment> all(plan_.begin(), plan_.end());
  for (Assignment& each : all) each.source = nullptr;  // as where values come from sequences
  plan_ = Plan(std::move(all));
  EXPECT_FALSE(renewal_.draw());
}

TEST_F(Renewal, DrawsForTheValuesOfTheIndexOnly) {
  give(3);
  a_->at_hand = b_->at_hand = 9;
  auto found = collisions({0, 2}, {"a"});
  taken_.add(found, ids::Taken::in_batch);
  EXPECT_EQ(a_->calls, "taken 1 3 of 2; ");
  EXPECT_TRUE(taken_.contains(0));
  renewal_.start(std::move(found));
  EXPECT_FALSE(renewal_.draw());
  EXPECT_EQ(values(), "101 1, 2 2, 102 3");
  EXPECT_FALSE(taken_.contains(0));
  EXPECT_FALSE(renewal_.has_asked());
  EXPECT_EQ(again(), "0 2");
}

TEST_F(Renewal, CountsWhatIsTakenInTheWholeRequest) {
  give(2);
  taken_.add(collisions({0, 1}, {"a"}), ids::Taken::in_batch);
  taken_.add(collisions({1}, {"a", "b"}), ids::Taken::in_transaction);
  EXPECT_EQ(a_->calls, "taken 1 2 of 2; aborted by 2 of 3; ");
  EXPECT_EQ(b_->calls, "aborted by 2 of 1; ");
}

TEST_F(Renewal, KnowsDuplicatesThatAreNotOurs) {
  give(1);
  EXPECT_TRUE(collisions({0}, {"other"}).empty());
  EXPECT_TRUE(collisions({7}, {"a"}).empty());  // it was given nothing
  EXPECT_EQ(rules_->outcomes(0).foreign, 1U);
}

TEST_F(Renewal, AsksRuleByRule) {
  give(2);
  renewal_.start(collisions({0, 1}, {"a", "b"}));
  auto question = renewal_.draw();
  ASSERT_TRUE(question);
  EXPECT_EQ(question->assignment, &plan_[0]);
  EXPECT_EQ(question->count, 2U);
  renewal_.answered(ids::Grant(nullptr, {{201, 2}}));
  question = renewal_.draw();
  ASSERT_TRUE(question);
  EXPECT_EQ(question->assignment, &plan_[1]);
  renewal_.answered(ids::Grant(nullptr, {{301, 2}}));
  EXPECT_FALSE(renewal_.draw());
  EXPECT_EQ(values(), "201 301, 202 302");
  EXPECT_TRUE(renewal_.has_asked());
  EXPECT_EQ(again(), "0 1");
}

/// With fewer values the first statements go again; each answer in turn is a refusal.
TEST_F(Renewal, LeavesTheLastBehind) {
  give(5);
  renewal_.start(collisions({0, 1, 2, 3, 4}, {"a"}));
  ASSERT_EQ(renewal_.draw()->count, 5U);
  renewal_.answered(ids::Error{Errc::exhausted, "none"});
  ASSERT_EQ(renewal_.draw()->count, 2U);
  renewal_.answered(ids::Grant(nullptr, {{201, 2}}));
  ASSERT_EQ(renewal_.draw()->count, 2U);
  renewal_.answered(ids::Error{Errc::exhausted, "none"});
  ASSERT_EQ(renewal_.draw()->count, 1U);
  renewal_.answered(ids::Error{Errc::exhausted, "none"});
  EXPECT_FALSE(renewal_.draw());
  EXPECT_EQ(values(), "201 1, 202 2, 3 3, 4 4, 5 5");
  EXPECT_EQ(again(), "0 1");
}

TEST_F(Renewal, EndsAtOnceIfTheStoreIsDown) {
  give(2);
  b_->at_hand = 9;
  renewal_.start(collisions({0, 1}, {"a", "b"}));
  ASSERT_TRUE(renewal_.draw());
  renewal_.answered(ids::Error{Errc::unavailable, "down"});
  EXPECT_FALSE(renewal_.draw());  // none is drawn of `b` for statements that stay behind
  EXPECT_EQ(b_->at_hand, 9U);
  EXPECT_EQ(again(), "");
}

TEST_F(Renewal, DrawsNothingWithoutCollisions) {
  give(1);
  renewal_.start({});
  EXPECT_FALSE(renewal_.draw());
  EXPECT_TRUE(renewal_.take().empty());
}

/// Those of statements that were not sent yet, with the one that was.
TEST_F(Renewal, ReplacesDoubtfulValuesToo) {
  give(4);
  auto found = collisions({1}, {"a"});
  renewal_.start(std::move(found), {4, 6});  // a of the statements 2 and 3
  const auto question = renewal_.draw();
  ASSERT_TRUE(question);
  EXPECT_EQ(question->count, 3U);
  renewal_.answered(ids::Grant(nullptr, {{201, 3}}));
  EXPECT_FALSE(renewal_.draw());
  EXPECT_EQ(values(), "1 1, 201 2, 202 3, 203 4");
  EXPECT_EQ(again(), "1");
}

TEST_F(Renewal, LeavesDoubtfulValuesIfThereAreNoOthers) {
  give(4);
  renewal_.start(collisions({1}, {"a"}), {4, 6});
  ASSERT_TRUE(renewal_.draw());
  renewal_.answered(ids::Error{Errc::exhausted, "few are left"});
  const auto question = renewal_.draw();
  EXPECT_FALSE(question);
  EXPECT_EQ(values(), "1 1, 2 2, 3 3, 4 4");
  EXPECT_EQ(again(), "");
}

}  // namespace value_renewal_test
}  // namespace idproxy::rewrite
