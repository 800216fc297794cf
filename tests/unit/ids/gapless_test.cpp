#include <gmock/gmock.h>

#include "idproxy/ids/gapless_queue.hpp"
#include "idproxy/ids/sequenced.hpp"
#include "support/fake_clock.hpp"
#include "support/fake_store.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace gapless_test {

using Table = test::FakeParameters::Table;
using testing::ElementsAre;
using testing::IsEmpty;

const test::FakeClock kClock;
test::SeededRandom random_source;

std::unique_ptr<Strategy> make_rule(Table table, std::vector<std::string>* errors = nullptr) {
  table.emplace("ns", "shop.*");
  table.emplace("field", "number");
  test::FakeParameters parameters(std::move(table));
  auto strategy = test::make_strategy("gapless", parameters, {kClock, random_source});
  if (errors != nullptr) *errors = parameters.errors();
  EXPECT_THAT(parameters.unknown(), IsEmpty());
  return strategy;
}

GaplessSpec spec_of_rule(Table table) {
  return make_rule(std::move(table))->sequence_rule()->spec();
}

TEST(Gapless, ReadsItsKeys) {
  const GaplessSpec plain = spec_of_rule({});
  EXPECT_EQ(plain.start, 1);
  EXPECT_EQ(plain.max, INT64_MAX);
  EXPECT_TRUE(plain.floor);
  EXPECT_EQ(plain.store_db, "idproxy");
  const GaplessSpec own = spec_of_rule({{"start", "-7"}, {"floor", "false"}, {"output", "int32"}});
  EXPECT_EQ(own.start, -7);
  EXPECT_EQ(own.max, INT32_MAX);
  EXPECT_FALSE(own.floor);
}

/// Wider texts would sort before narrower ones, and the largest could not be found.
TEST(Gapless, WritesTextsOfOneWidth) {
  EXPECT_EQ(spec_of_rule({{"output", "string"}, {"format.pad", "3"}}).max, 999);
  EXPECT_EQ(spec_of_rule({{"output", "string"}, {"format.pad", "18"}}).max,
            999'999'999'999'999'999);
  EXPECT_EQ(spec_of_rule({{"output", "string"}, {"format.pad", "34"}}).max, INT64_MAX);
  std::vector<std::string> errors;
  make_rule({{"output", "string"}}, &errors);
  EXPECT_THAT(errors, ElementsAre(testing::StartsWith("format.pad: is missing")));
  make_rule({{"output", "string"}, {"format.pad", "3"}, {"start", "1000"}}, &errors);
  EXPECT_THAT(errors, ElementsAre("start: out of range"));
}

TEST(Gapless, RefusesScopes) {
  std::vector<std::string> errors;
  make_rule({{"scope", "tenant"}}, &errors);
  EXPECT_THAT(errors, ElementsAre("scope: is not in this release"));
}

/// A store with the test's sequences.
class SequenceStore : public test::FakeStore {
 public:
  std::shared_ptr<GaplessQueue> sequence(const GaplessSpec& spec) override {
    asked.push_back(spec);
    return std::make_shared<GaplessQueue>(spec, kClock, [] {});
  }
  std::vector<GaplessSpec> asked;
};

TEST(Gapless, HasASequenceForEachCollection) {
  const auto rule = make_rule({{"start", "10"}});
  Values values;
  EXPECT_FALSE(rule->next(1, values)) << "it belongs to no collection";
  SequenceStore store;
  const auto bound = rule->bind("shop.orders", store);
  ASSERT_EQ(store.asked.size(), 1U);
  EXPECT_EQ(store.asked.front().key(), "shop.orders.number");
  EXPECT_EQ(store.asked.front().start, 10);
  ASSERT_NE(bound->sequenced(), nullptr);
  EXPECT_EQ(bound->attempts(), Strategy::kAttemptsInTurn);
  const Draw none = bound->next(1, values);
  EXPECT_FALSE(none || none.needs_store()) << "only for documents";
  EXPECT_EQ(values.size(), 0U);
  test::FakeStore without;
  EXPECT_EQ(rule->bind("shop.orders", without), nullptr);
}

}  // namespace gapless_test
}  // namespace idproxy::ids
