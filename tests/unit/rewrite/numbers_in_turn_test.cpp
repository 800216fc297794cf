#include "rewrite/turn_stage.hpp"

#include <gtest/gtest.h>

#include "idproxy/rewrite/draw_stage.hpp"
#include "support/fake_clock.hpp"
#include "support/rule_set.hpp"
#include "support/turn_source.hpp"

namespace idproxy::rewrite {
namespace numbers_in_turn_test {

using namespace test;
using Statements = std::vector<std::int32_t>;

/// Stands for those of a rule; the test says which statement has which.
std::shared_ptr<ids::Sequences> several_sequences() {
  static const FakeClock clock;
  static const ids::SequenceOptions options;
  return std::make_shared<ids::Sequences>(options, "", ids::NumberFormat(), clock, nullptr);
}

/// A write of documents 0, 1, … that belong to the sequences with these names.
class Lines : public ::testing::Test {
 protected:
  void begin(const std::vector<std::string>& names) {
    given.sequences.resize(1);
    std::map<std::string, std::uint32_t> known;
    for (std::int32_t i = 0; const std::string& name : names) {
      const auto next = static_cast<std::uint32_t>(given.sequences[0].all.size());
      const auto [at, is_new] = known.emplace(name, next);
      if (is_new) {
        sequences[name] = std::make_shared<Turns>();
        sequences[name]->name = name;
        given.sequences[0].all.push_back(std::make_shared<TurnSource>(sequences[name]));
      }
      given.sequences[0].of_value.push_back(at->second);
      given.given.push_back({i, 0, static_cast<std::uint32_t>(i)});
      all.push_back(i++);
    }
    given.wanted.push_back(names.size());
    given.values.resize(1);
    plan = Plan(
        {{&the_rule, &outcomes, 0, {"number"}, "shop.orders", nullptr, several_sequences(), true}});
    numbers = std::make_unique<NumbersInTurn>(plan, given, ids::TurnTaker{});
  }
  /// The numbers of all documents.
  [[nodiscard]] std::vector<std::int64_t> shown() const {
    std::vector<std::int64_t> found;
    for (const Given& each : given.given) {
      found.push_back(load_i64(given.values[0][each.value].data()));
    }
    return found;
  }
  void answer(std::int64_t first, std::uint64_t count) {
    numbers->accept(ids::Grant(nullptr, {{first, count}}));
  }

  Rule the_rule = rule("shop.*", "number");
  RuleOutcomes outcomes;
  Plan plan;
  GivenValues given;
  std::map<std::string, std::shared_ptr<Turns>> sequences;
  Statements all;
  std::unique_ptr<NumbersInTurn> numbers;
};

TEST_F(Lines, GiveEachSequenceItsOwnNumbers) {
  begin({"b", "a", "b", "c", "a", "b"});
  sequences["a"]->next = 10;
  sequences["b"]->next = 20;
  EXPECT_TRUE(needs_turn(plan, given));
  EXPECT_FALSE(numbers->provide(all));
  numbers->send(all);
  EXPECT_EQ(shown(), (std::vector<std::int64_t>{20, 10, 21, 1, 11, 22}));
  const GivenSequences& its = given.sequences[0];
  ASSERT_EQ(its.of_value.size(), given.values[0].size());
  for (const Given& each : given.given) {
    const auto number = load_i64(given.values[0][each.value].data());
    const auto& name = its.all[its.of_value[each.value]]->name();
    EXPECT_EQ(name, number >= 20 ? "b" : number >= 10 ? "a" : "c");
  }
}

/// All writes do so, whatever the order of their documents.
TEST_F(Lines, TakeTheTurnsInTheOrderOfTheirNames) {
  begin({"c", "b", "a", "b"});
  for (const char* name : {"a", "b", "c"}) sequences[name]->is_known = false;
  auto missing = numbers->provide(all);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->count, 1U);
  answer(10, 1);
  missing = numbers->provide(all);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->count, 2U);
  answer(20, 2);
  ASSERT_TRUE(numbers->provide(all));
  answer(30, 1);
  EXPECT_FALSE(numbers->provide(all));
  numbers->send(all);
  EXPECT_EQ(shown(), (std::vector<std::int64_t>{30, 20, 10, 21}));
}

/// If there are many new ones, the error of one for which there was no time does not blame the
/// store.
TEST_F(Lines, KnowWhetherTheStoreHasAnsweredForSome) {
  begin({"a", "b"});
  for (const char* name : {"a", "b"}) sequences[name]->is_known = false;
  ASSERT_TRUE(numbers->provide(all));
  EXPECT_FALSE(numbers->has_some());
  answer(10, 1);
  ASSERT_TRUE(numbers->provide(all));
  EXPECT_TRUE(numbers->has_some());
  const ids::Error late{ids::Errc::unavailable, ids::kNotInTime};
  EXPECT_EQ(with_progress(late, false).reason, ids::kNotInTime);
  EXPECT_EQ(
      with_progress(late, true).reason,
      "it needs numbers of many sequences, and only those of some were there in time: send it "
      "again, or fewer at once");
  EXPECT_EQ(with_progress({ids::Errc::unavailable, "no primary"}, true).reason, "no primary");
}

TEST_F(Lines, PassOnTheNumberOfAFailedDocumentWithinItsSequence) {
  begin({"a", "b", "a", "b", "a"});
  EXPECT_FALSE(numbers->provide(all));
  numbers->send(all);
  EXPECT_EQ(shown(), (std::vector<std::int64_t>{1, 1, 2, 2, 3}));
  numbers->stored(Statements{0, 1}, ids::Durability::by_majority);  // and 2 has failed
  const Statements rest{3, 4};
  EXPECT_FALSE(numbers->provide(rest));
  numbers->send(rest);
  EXPECT_EQ(shown()[3], 2);
  EXPECT_EQ(shown()[4], 2);
  numbers->stored(rest, ids::Durability::by_majority);
  EXPECT_EQ(sequences["a"]->calls, "sent; 1 stored; sent; 1 stored; ");
  EXPECT_EQ(sequences["b"]->calls, "sent; 1 stored; sent; 1 stored; ");
}

TEST_F(Lines, LookOnlyInTheSequenceWhoseNumberIsTaken) {
  begin({"a", "b", "a", "b"});
  EXPECT_FALSE(numbers->provide(all));
  numbers->send(all);
  numbers->stored(Statements{0}, ids::Durability::by_majority);
  const Collision collision{1, {1}};
  EXPECT_EQ(numbers->sequence_in(collision), &plan.front());
  numbers->taken(collision);
  const Statements rest{1, 2, 3};
  const auto missing = numbers->provide(rest);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->count, 2U);
  answer(7, 2);
  EXPECT_FALSE(numbers->provide(rest));
  numbers->send(rest);
  EXPECT_EQ(shown(), (std::vector<std::int64_t>{1, 7, 2, 8}));
  EXPECT_EQ(sequences["a"]->calls, "sent; 1 stored; sent; ");
  EXPECT_EQ(sequences["b"]->calls, "sent; 0 stored; taken; sent; ");
}

/// Such as one that was forgotten while the documents were read.
TEST_F(Lines, TakeOneTurnOfASequenceWithTwoObjects) {
  begin({"a", "b", "c"});
  sequences["c"]->name = "a";
  numbers.reset();
  given.sequences[0].of_value = {0, 1, 2};
  numbers = std::make_unique<NumbersInTurn>(plan, given, ids::TurnTaker{});
  EXPECT_FALSE(numbers->provide(all));
  numbers->send(all);
  EXPECT_EQ(shown(), (std::vector<std::int64_t>{1, 1, 2}));
}

}  // namespace numbers_in_turn_test
}  // namespace idproxy::rewrite
