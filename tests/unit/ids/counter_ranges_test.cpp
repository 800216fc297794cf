#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/store.hpp"
#include "support/fake_store.hpp"
#include "support/range_store.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace counter_ranges_test {

using namespace std::chrono_literals;
using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;
using Layout = RangesSpec::Layout;
using Output = NumberFormat::Output;

std::unique_ptr<RuleSource> make_ranges(test::FakeParameters& parameters) {
  static const test::FakeClock clock;
  static test::SeededRandom random;
  return test::make_strategy("counter-ranges", parameters, {clock, random});
}

/// With the rule's own keys, as the strategy finds them beside its own.
Table of_orders(Table table) {
  table.emplace("ns", "shop.orders");
  table.emplace("field", "number");
  return table;
}

/// Of a rule without faults.
std::unique_ptr<RuleSource> strategy_of(const Table& table) {
  test::FakeParameters parameters(of_orders(table));
  auto strategy = make_ranges(parameters);
  EXPECT_EQ(parameters.errors(), Texts());
  EXPECT_EQ(parameters.unknown(), Texts());
  return strategy;
}

RangesSpec ranges_spec_of(const Table& table) {
  return *strategy_of(table)->about().ranges;
}

TEST(CounterRangesKeys, SucceedWithTheirDefaults) {
  const auto strategy = strategy_of({});
  const RuleSource::About& about = strategy->about();
  EXPECT_EQ(about.field, (CounterField{"shop.orders", "number", {}}));
  EXPECT_FALSE(about.per_namespace);
  EXPECT_EQ(about.counter->place.ns(), "idproxy.uniqueIdentifierCounter");
  RangesSpec defaults;
  defaults.name = "shop.orders.number";
  defaults.counter.place = {"idproxy",  "uniqueIdentifierCounter",   "_id", "",
                            "COUNT",    CounterPlace::ValueIs::next, "",    "idproxy",
                            "MAX_VALUE"};
  defaults.counter.scan = 0ms;
  EXPECT_EQ(*strategy->about().ranges, defaults);
}

TEST(CounterRangesKeys, SucceedWithAllOfThem) {
  const auto strategy = strategy_of({{"name", "orders"},
                                     {"ranges.count", "10"},
                                     {"ranges.width", "100"},
                                     {"ranges.first", "-50"},
                                     {"pick", "random"},
                                     {"active", "64"},
                                     {"create", "false"},
                                     {"block", "50"},
                                     {"store.db", "ids"},
                                     {"store.collection", "c"},
                                     {"heal.mode", "gap"},
                                     {"heal.after", "5"},
                                     {"heal.max_jump", "1000"},
                                     {"heal.at_start", "true"},
                                     {"on_store_down.action", "wait"},
                                     {"on_store_down.wait", "500ms"},
                                     {"output", "string"},
                                     {"format.pad", "12"},
                                     {"format.prefix", "O-"},
                                     {"format.suffix", "/a"}});
  const RangesSpec& ranges = *strategy->about().ranges;
  EXPECT_EQ(ranges.name, "orders");
  EXPECT_EQ(ranges.layout, (Layout{10, 100, -50}));
  EXPECT_EQ(ranges.pick, RangesSpec::Pick::random);
  EXPECT_EQ(ranges.active, 64U);
  EXPECT_FALSE(ranges.create);
  EXPECT_EQ(ranges.counter.block.size, 50U);
  EXPECT_EQ(ranges.counter.place.ns(), "ids.c");
  EXPECT_EQ(ranges.counter.heal, (CounterSpec::Heal{CounterSpec::Heal::Mode::gap, 5, 1000, true}));
  EXPECT_EQ(ranges.counter.on_store_down.wait, 500ms);
  EXPECT_EQ(strategy->about().field.format, (NumberFormat{Output::string, 12, "O-", "/a"}));
}

TEST(CounterRangesKeys, ARangeIsACounter) {
  const CounterSpec sticky = counter_of(ranges_spec_of({}), {7, 700, 799, 750});
  EXPECT_EQ(sticky.place.key, "COUNTER DOCUMENT NUMBER 7");
  EXPECT_TRUE(sticky.place.is_range());
  EXPECT_EQ(sticky.start, 700);
  EXPECT_EQ(sticky.max, 799);
  EXPECT_EQ(sticky.block.size, std::nullopt);
  const CounterSpec random = counter_of(ranges_spec_of({{"pick", "random"}}), {7, 700, 799, 750});
  EXPECT_EQ(random.block, (CounterSpec::Block{.size = 1, .prefetch = 0, .idle = 20s}));
}

struct RangesRuleFault {
  const char* name;
  Table table;
  Texts errors;
};

TEST(CounterRangesKeys, FailIfTheyMakeNoSense) {
  const std::string too_wide =
      "ranges.width: must be small enough for all ranges to end below 2^63";
  const std::vector<RangesRuleFault> faults{
      {"int32",
       {{"output", "int32"}},
       {"output: must be one of int64 or string, is text 'int32', did you mean 'int64'?"}},
      {"count", {{"ranges.count", "0"}}, {"ranges.count: must be an integer 1 to 1000000, is 0"}},
      {"too_wide", {{"ranges.width", "9223372036854775807"}}, {too_wide}},
      {"too_far", {{"ranges.first", "9223371036854775808"}}, {too_wide}},
      {"too_far_by_one",
       {{"ranges.count", "1"}, {"ranges.width", "8"}, {"ranges.first", "9223372036854775800"}},
       {too_wide}},
      {"active", {{"active", "65"}}, {"active: must be an integer 1 to 64, is 65"}},
      {"pick", {{"pick", "first"}}, {"pick: must be one of sticky or random, is text 'first'"}},
      {"collection", {{"store.collection", ""}}, {"store.collection: must name a collection"}},
      {"pad",
       {{"output", "string"}, {"format.pad", "35"}},
       {"format.pad: must be an integer 0 to 34, is 35"}},
  };
  for (const RangesRuleFault& fault : faults) {
    test::FakeParameters parameters(of_orders(fault.table));
    (void)make_ranges(parameters);
    EXPECT_EQ(parameters.unknown(), Texts());
    EXPECT_EQ(parameters.errors(), fault.errors) << fault.name;
  }
  EXPECT_EQ(
      ranges_spec_of(
          {{"ranges.count", "1"}, {"ranges.width", "7"}, {"ranges.first", "9223372036854775800"}})
          .counter.place.ns(),
      "idproxy.uniqueIdentifierCounter");
}

TEST(CounterRangesKeys, FailIfAFormatHasNoString) {
  test::FakeParameters parameters(of_orders({{"format", ""}, {"format.pad", "3"}}));
  (void)make_ranges(parameters);
  EXPECT_EQ(parameters.errors(), (Texts{"format: needs output: string"}));
}

// --- values ---

/// A store that has one set of ranges.
class StoreOfRanges final : public test::FakeStore {
 public:
  std::shared_ptr<RangeSet> ranges(const RangesSpec& spec, const CounterField& field,
                                   const Sources& /*sources*/) override {
    if (!store) store = std::make_unique<test::RangeStore>(spec);
    fields.push_back(field);
    return store->set;
  }

  std::unique_ptr<test::RangeStore> store;
  std::vector<CounterField> fields;
};

class CounterRanges : public testing::Test {
 protected:
  void bind(Table table) {
    table.insert(
        {{"ranges.count", "10"}, {"ranges.width", "100"}, {"active", "1"}, {"block", "10"}});
    rule = strategy_of(table);
    rule->announce(ranges);
    ranges.store->look();
    strategy = rule->bind("shop.orders", &ranges).source;
  }
  /// From memory or asked for, as numbers.
  std::vector<std::int64_t> next(std::size_t n) {
    values.clear();
    test::draw(*strategy, n, values, [this] { ranges.store->work(); });
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < values.size(); ++i) {
      numbers.push_back(*read_number(values.type(), values[i], rule->about().field.format));
    }
    return numbers;
  }

  StoreOfRanges ranges;
  std::unique_ptr<RuleSource> rule;
  std::shared_ptr<Source> strategy;
  Values values;
};

TEST_F(CounterRanges, AreToldToTheStoreAtTheStart) {
  bind({});
  ASSERT_EQ(ranges.fields.size(), 2U);
  EXPECT_EQ(ranges.fields[0], ranges.fields[1]);
}

TEST_F(CounterRanges, GiveInt64) {
  bind({});
  const auto numbers = next(3);
  ASSERT_EQ(numbers.size(), 3U);
  EXPECT_EQ(values.type(), bson::Type::int64);
  EXPECT_EQ(numbers[2], numbers[0] + 2);
}

TEST_F(CounterRanges, GiveText) {
  bind({{"output", "string"}, {"format.pad", "12"}});
  EXPECT_EQ(next(2).size(), 2U);
  EXPECT_EQ(values[0].size(), 4 + 12 + 1);
  EXPECT_LE(values[0].size(), strategy->most_bytes());
}

TEST_F(CounterRanges, TakeBackWhatWasNotStored) {
  bind({});
  const auto numbers = next(5);
  const std::vector<std::uint32_t> which{1, 2, 4};
  strategy->take_back(values, which);
  EXPECT_EQ(next(3), (std::vector{numbers[1], numbers[2], numbers[4]}));
}

TEST_F(CounterRanges, HealAfterDuplicates) {
  bind({});
  EXPECT_EQ(next(3).size(), 3U);
  const std::vector<std::uint32_t> which{0, 1};
  strategy->collided(values, which, 2, Taken::in_batch);
  EXPECT_TRUE(strategy->in_a_row());
  ranges.store->work();
  EXPECT_EQ(ranges.store->done.back().job.kind, CounterJob::Kind::heal);
  strategy->went_well();
  EXPECT_FALSE(strategy->in_a_row());
}

}  // namespace counter_ranges_test
}  // namespace idproxy::ids
