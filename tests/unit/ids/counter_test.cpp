#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "idproxy/ids/fill.hpp"
#include "idproxy/ids/number_format.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "idproxy/ids/store.hpp"
#include "support/block_caches.hpp"
#include "support/counter_store.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace counter_test {

using namespace std::chrono_literals;
using test::CounterStore;
using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;
using ValueIs = CounterPlace::ValueIs;
using Output = NumberFormat::Output;
using Numbers = std::vector<std::int64_t>;

std::unique_ptr<RuleSource> make(test::FakeParameters& parameters) {
  static const test::FakeClock clock;
  static test::SeededRandom random;
  return test::make_strategy("counter", parameters, {clock, random});
}

/// With the rule's own keys, as the strategy finds them beside its own.
Table with_rule(Table table) {
  table.emplace("ns", "shop.orders");
  table.emplace("field", "number");
  return table;
}

/// What a rule without faults says.
RuleSource::About about(const Table& table) {
  test::FakeParameters parameters(with_rule(table));
  const auto strategy = make(parameters);
  EXPECT_EQ(parameters.errors(), Texts());
  EXPECT_EQ(parameters.unknown(), Texts());
  return strategy ? strategy->about() : RuleSource::About();
}

Texts faults_of(const Table& table) {
  test::FakeParameters parameters(with_rule(table));
  (void)make(parameters);
  EXPECT_EQ(parameters.unknown(), Texts());
  return parameters.errors();
}

// --- keys ---

TEST(CounterKeys, SucceedWithTheirDefaults) {
  const RuleSource::About rule = about({});
  EXPECT_EQ(rule.counter->place,
            (CounterPlace{"idproxy", "uniqueIdentifierCounter", "_id", "shop.orders.number",
                          "COUNT", ValueIs::next, "", "idproxy"}));
  CounterSpec defaults;
  defaults.place = rule.counter->place;
  EXPECT_EQ(rule.counter, defaults);
  EXPECT_EQ(rule.field, (CounterField{"shop.orders", "number", {}}));
  EXPECT_TRUE(rule.per_namespace);
}

TEST(CounterKeys, SucceedWithAllOfThem) {
  const RuleSource::About rule = about({{"name", "orders"},
                                        {"start", "7"},
                                        {"step", "-5"},
                                        {"max", "-1000"},
                                        {"block", "50"},
                                        {"store.db", "ids"},
                                        {"store.collection", "c"},
                                        {"store.layout", "counters-seq"},
                                        {"scan", "5s"},
                                        {"heal.mode", "gap"},
                                        {"heal.after", "5"},
                                        {"heal.max_jump", "1000"},
                                        {"heal.at_start", "true"},
                                        {"on_store_down.action", "wait"},
                                        {"on_store_down.wait", "500ms"},
                                        {"output", "string"},
                                        {"format.pad", "8"},
                                        {"format.prefix", "O-"},
                                        {"format.suffix", "/a"}});
  CounterSpec spec;
  spec.place = {"ids", "c", "_id", "orders", "seq", ValueIs::last, "", "idproxy"};
  spec.start = 7;
  spec.step = -5;
  spec.max = -1000;
  spec.block.size = 50;
  spec.scan = 5s;
  spec.heal = {CounterSpec::Heal::Mode::gap, 5, 1000, true};
  spec.on_store_down = {CounterSpec::OnStoreDown::Action::wait, 500ms};
  EXPECT_EQ(rule.counter, spec);
  EXPECT_EQ(rule.field, (CounterField{"shop.orders", "number", {Output::string, 8, "O-", "/a"}}));
  EXPECT_FALSE(rule.per_namespace);
}

TEST(CounterKeys, SucceedWithEveryLayout) {
  struct Layout {
    const char* name;
    const char* collection;
    const char* value_field;
    ValueIs value_is;
  };
  constexpr Layout kLayouts[] = {
      {"unique-count", "uniqueIdentifierCounter", "COUNT", ValueIs::next},
      {"counters-next", "counters", "next", ValueIs::last},
      {"counters-seq", "counters", "seq", ValueIs::last},
      {"ids-index", "ids", "index", ValueIs::next},
  };
  for (const Layout& layout : kLayouts) {
    const CounterPlace place =
        about({{"store.layout", layout.name}, {"store.key", "userid"}}).counter->place;
    EXPECT_EQ(place, (CounterPlace{"idproxy", layout.collection, "_id", "userid",
                                   layout.value_field, layout.value_is, "", "idproxy"}))
        << layout.name;
  }
}

TEST(CounterKeys, SucceedWithTheLayoutOfMongooseSequence) {
  const CounterPlace place = about({{"name", "order_seq"},
                                    {"store.layout", "mongoose-sequence"},
                                    {"store.collection", "mine"}})
                                 .counter->place;
  EXPECT_EQ(place.ns(), "idproxy.mine");
  EXPECT_EQ(place.key_field, "id");
  EXPECT_EQ(place.key, "order_seq");
  EXPECT_EQ(place.value_field, "seq");
  EXPECT_EQ(place.value_is, ValueIs::last);
  EXPECT_EQ(test::to_hex(as_bytes(place.filter)),
            "160000000a" + test::to_hex(as_bytes("reference_value")) + "0000");
  EXPECT_FALSE(place.is_scope());
}

TEST(CounterKeys, SucceedWithACustomLayout) {
  const CounterPlace place = about({{"name", "n"},
                                    {"store.layout", "custom"},
                                    {"store.collection", "identitycounters"},
                                    {"store.key", "Order"},
                                    {"store.key_field", "model"},
                                    {"store.value_field", "count"},
                                    {"store.value_is", "last"},
                                    {"store.filter.field", "number"}})
                                 .counter->place;
  EXPECT_EQ(place.collection, "identitycounters");
  EXPECT_EQ(place.key_field, "model");
  EXPECT_EQ(place.key, "Order");
  EXPECT_EQ(place.value_field, "count");
  EXPECT_EQ(place.value_is, ValueIs::last);
  EXPECT_EQ(test::to_hex(as_bytes(place.filter)), "17000000026669656c6400070000006e756d6265720000");
}

TEST(CounterKeys, MaxFollowsOutputAndDirection) {
  using Int64 = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(about({}).counter->max, Int64::max());
  EXPECT_EQ(about({{"step", "-1"}}).counter->max, Int64::min());
  EXPECT_EQ(about({{"output", "int32"}}).counter->max, 2147483647);
  EXPECT_EQ(about({{"output", "int32"}, {"step", "-1"}}).counter->max, -2147483648);
  EXPECT_EQ(about({{"output", "string"}}).counter->max, Int64::max());
}

struct Fault {
  const char* name;
  Table table;
  Texts errors;
};

TEST(CounterKeys, FailIfTheyMakeNoSense) {
  const Table custom{{"store.layout", "custom"},
                     {"store.collection", "c"},
                     {"store.key_field", "id"},
                     {"store.value_field", "seq"},
                     {"store.value_is", "last"}};
  const auto custom_with = [&](const Table& changes) {
    Table table = changes;
    table.insert(custom.begin(), custom.end());
    return table;
  };
  const std::vector<Fault> faults{
      {"step_zero", {{"step", "0"}}, {"step: must not be 0"}},
      {"step_large", {{"step", "65536"}}, {"step: must be an integer -65535 to 65535, is 65536"}},
      {"step_low", {{"step", "-65536"}}, {"step: must be an integer -65535 to 65535, is -65536"}},
      {"start_beyond_max", {{"max", "5"}, {"start", "6"}}, {"start: must not be beyond max (5)"}},
      {"start_beyond_lowest",
       {{"step", "-1"}, {"max", "5"}, {"start", "4"}},
       {"start: must not be beyond max (5)"}},
      {"size_large",
       {{"block.size", "10001"}},
       {"block.size: must be auto or an integer 1 to 10000, is 10001"}},
      {"size_zero",
       {{"block.size", "0"}},
       {"block.size: must be auto or an integer 1 to 10000, is 0"}},
      {"block_large",
       {{"block", "10001"}},
       {"block: must be auto or an integer 1 to 10000, is 10001"}},
      {"block_zero", {{"block", "0"}}, {"block: must be auto or an integer 1 to 10000, is 0"}},
      {"block_other",
       {{"block", "automatic"}},
       {"block: must be auto or an integer 1 to 10000, is text 'automatic'"}},
      {"int32_max",
       {{"output", "int32"}, {"max", "2147483648"}},
       {"max: must be an integer -2147483648 to 2147483647, is 2147483648"}},
      {"int32_start",
       {{"output", "int32"}, {"start", "-2147483649"}},
       {"start: must be an integer -2147483648 to 2147483647, is -2147483649"}},
      {"pad",
       {{"output", "string"}, {"format.pad", "35"}},
       {"format.pad: must be an integer 0 to 34, is 35"}},
      {"layout",
       {{"store.layout", "uniquecount"}},
       {"store.layout: must be one of unique-count, counters-next, counters-seq, ids-index, "
        "mongoose-sequence or custom, is text 'uniquecount', did you mean 'unique-count'?"}},
      {"no_collection", {{"store.collection", ""}}, {"store.collection: must name a collection"}},
      {"heal_mode",
       {{"heal.mode", "maximum"}},
       {"heal.mode: must be one of max, gap or off, is text 'maximum'"}},
      {"heal_after", {{"heal.after", "0"}}, {"heal.after: must be an integer 1 to 1000000, is 0"}},
      {"scan", {{"scan", "0ms"}}, {"scan: must be off or a duration of 1s to 1h, is 0ms"}},
      {"wait",
       {{"on_store_down.wait", "2001ms"}},
       {"on_store_down.wait: must be a duration of 0ms to 2s, is 2001ms"}},
      {"output",
       {{"output", "double"}},
       {"output: must be one of int64, int32 or string, is text 'double'"}},
      {"custom",
       {{"store.layout", "custom"}},
       {"store.collection: must name a collection", "store.key_field: is missing",
        "store.value_field: is missing", "store.value_is: is missing; must be next or last"}},
      {"custom_operator",
       custom_with({{"store.value_field", "$seq"}}),
       {"store.value_field: must be a field of the document itself, without '.' and without '$' "
        "at its beginning"}},
      {"custom_path",
       custom_with({{"store.key_field", "a.b"}}),
       {"store.key_field: must be a field of the document itself, without '.' and without '$' at "
        "its beginning"}},
      {"custom_id",
       custom_with({{"store.value_field", "_id"}}),
       {"store.value_field: must not be _id, which is fixed"}},
      {"custom_same",
       custom_with({{"store.value_field", "id"}}),
       {"store.value_field: must not be key_field"}},
      {"custom_filter",
       custom_with({{"store.filter.seq", "1"}}),
       {"store.filter: must not name 'seq', which is the counter's own"}},
  };
  for (const Fault& fault : faults) EXPECT_EQ(faults_of(fault.table), fault.errors) << fault.name;
}

TEST(CounterKeys, FailIfAFormatHasNoString) {
  test::FakeParameters parameters(with_rule({{"format", ""}, {"format.pad", "3"}}));
  (void)make(parameters);
  EXPECT_EQ(parameters.errors(), (Texts{"format: needs output: string"}));
}

TEST(CounterKeys, SucceedWithOtherDigits) {
  const RuleSource::About rule = about({{"encoding", "base36"}, {"format.pad", "4"}});
  EXPECT_EQ(rule.field.format.output, Output::string);
  EXPECT_EQ(rule.field.format.alphabet, "0123456789abcdefghijklmnopqrstuvwxyz");
  const Table down{{"encoding", "hex"}, {"step", "-1"}, {"start", "9"}};
  EXPECT_EQ(about(down).counter->max, 0);
  const Table error{{"encoding", "base36"}, {"template", "{counter:02}"}, {"on_width", "error"}};
  EXPECT_EQ(about(error).counter->max, 1295);
  const Table padded{{"encoding", "base36"}, {"format.pad", "2"}, {"on_width", "error"}};
  EXPECT_EQ(about(padded).counter->max, 1295);
  EXPECT_EQ(
      faults_of({{"encoding", "base36"}, {"output", "int64"}}),
      Texts{"output: must be string beside `encoding`, which makes the value a text: leave it "
            "out"});
  EXPECT_EQ(faults_of({{"encoding", "base36"}, {"check", "luhn"}}),
            Texts{"check: is computed of decimal digits: leave out `encoding`, or `check`"});
  EXPECT_EQ(faults_of({{"encoding", "base36"}, {"start", "-1"}}).size(), 1U);
  // Letters between a field and the number may be digits of it.
  EXPECT_EQ(faults_of({{"encoding", "base36"}, {"template", "{field:a}x{counter}"}}).size(), 1U);
  EXPECT_EQ(faults_of({{"encoding", "base36"}, {"template", "{field:a}-{counter}"}}), Texts());
}

TEST(CounterKeys, WarnOfBracesThatAreNoTemplate) {
  test::FakeParameters parameters(with_rule({{"output", "string"},
                                             {"format", ""},
                                             {"format.prefix", "INV-{year}-"},
                                             {"format.suffix", "}"}}));
  (void)make(parameters);
  EXPECT_EQ(parameters.errors(), Texts());
  const std::string literal =
      ": is stored as it is, braces included: tokens such as {yyyy} belong into `template`";
  EXPECT_EQ(parameters.warnings(), (Texts{"format.prefix" + literal, "format.suffix" + literal}));
}

TEST(CounterKeys, WarnOfThoseOfEarlierReleases) {
  const Table old{{"block.size", "50"},       {"block.adaptive", "true"},
                  {"block.min", "10"},        {"block.max", "500"},
                  {"block.target", "10s"},    {"block.prefetch", "0.25"},
                  {"block.give_back", "yes"}, {"block.idle", "1 minute"}};
  test::FakeParameters parameters(with_rule(old));
  const auto strategy = make(parameters);
  EXPECT_EQ(parameters.errors(), Texts());
  EXPECT_EQ(parameters.unknown(), Texts());
  Texts expected;
  for (const char* key : {"prefetch", "give_back", "idle", "adaptive", "target", "min", "max"}) {
    expected.push_back("block." + std::string(key) + ": has no effect any more");
  }
  EXPECT_EQ(parameters.warnings(), expected);
  CounterSpec::Block only_size;
  only_size.size = 50;
  EXPECT_EQ(strategy->about().counter->block, only_size);
}

TEST(CounterKeys, WarnOfAHealThatNeverComes) {
  test::FakeParameters parameters(with_rule({{"heal.mode", "off"}, {"heal.at_start", "true"}}));
  (void)make(parameters);
  EXPECT_EQ(parameters.errors(), Texts());
  EXPECT_EQ(parameters.warnings(), (Texts{"heal.at_start: has no effect with mode: off"}));
}

// --- values ---

/// A rule, bound to a collection.
struct Bound {
  explicit Bound(const Table& table, std::string_view ns = "shop.orders") {
    test::FakeParameters parameters(with_rule(table));
    rule = make(parameters);
    strategy = rule->bind(ns, &store).source;
  }

  test::BlockCaches& counter() { return *store.counters.begin()->second; }
  [[nodiscard]] Numbers numbers_of(const Values& drawn) const {
    const NumberFormat& format = rule->about().field.format;
    Numbers numbers;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      numbers.push_back(*read_number(drawn.type(), drawn[i], format));
    }
    return numbers;
  }
  /// From the block, or asked for.
  Numbers next(std::size_t n) {
    values.clear();
    test::draw(*strategy, n, values, [this] { counter().work(); });
    return numbers_of(values);
  }

  CounterStore store;
  std::unique_ptr<RuleSource> rule;
  std::shared_ptr<Source> strategy;
  Values values;
};

/// What their fields hold counts when the counter is made, also before they have been used.
TEST(Counter, TellsTheStoreOfFieldsThatShareACounter) {
  for (const char* key : {"name", "store.key"}) {
    CounterStore store;
    test::FakeParameters parameters(with_rule(Table{{key, "shared"}}));
    const auto rule = make(parameters);
    rule->announce(store);
    ASSERT_EQ(store.fields.size(), 1U);
    EXPECT_EQ(store.fields[0].field, "number");
  }
  CounterStore store;
  test::FakeParameters one(with_rule(Table{}));
  make(one)->announce(store);  // another rule may name it
  EXPECT_EQ(store.fields.size(), 1U);
  EXPECT_TRUE(store.counters.contains("shop.orders.number"));
  test::FakeParameters many(with_rule(Table{{"ns", "shop.*"}}));
  make(many)->announce(store);
  EXPECT_EQ(store.fields.size(), 1U);
}

// The vectors of docs/strategies.md#allocation, from what the document says to what is handed out:
// a block of n whose pre-image is p begins with p (next) or p + step (last), which is the store's
// business.
TEST(Counter, SucceedsWithTheVectors) {
  Bound blog(Table{{"start", "0"}, {"block.size", "1000"}, {"name", "n"}});
  const Numbers thousand = blog.next(1000);
  EXPECT_EQ(thousand.front(), 0);
  EXPECT_EQ(thousand.back(), 999);
  EXPECT_EQ(blog.counter().value, 1000);
  Bound next(Table{{"store.layout", "counters-next"}, {"block.size", "1"}});
  EXPECT_EQ(next.next(1), (Numbers{1}));
  Bound index(Table{{"start", "1000"}, {"block.size", "10"}, {"store.layout", "ids-index"}});
  EXPECT_EQ(index.next(10), (Numbers{1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009}));
  EXPECT_EQ(index.counter().value, 1010);
  Bound step(Table{{"start", "3"}, {"step", "5"}, {"block.size", "3"}});
  EXPECT_EQ(step.next(3), (Numbers{3, 8, 13}));
  EXPECT_EQ(step.counter().value, 18);
  Bound healed(Table{{"start", "10"}, {"block.size", "100"}, {"heal.after", "1"}});
  EXPECT_EQ(healed.next(1), (Numbers{10}));
  healed.strategy->collided(healed.values, std::vector<std::uint32_t>{0}, 1, Taken::in_batch);
  healed.counter().value = 338;
  const Numbers hundred = healed.next(100);
  EXPECT_EQ(hundred.front(), 338);
  EXPECT_EQ(hundred.back(), 437);
  EXPECT_EQ(healed.counter().value, 438);
}

TEST(Counter, SucceedsWithEveryOutput) {
  const auto hex_of = [](const Table& table) {
    Bound bound(table);
    EXPECT_EQ(bound.next(2), (Numbers{-1, -3}));
    return std::pair(bound.values.type(), test::to_hex(bound.values[1]));
  };
  const Table down{{"start", "-1"}, {"step", "-2"}};
  const auto with = [&](Table table) {
    table.insert(down.begin(), down.end());
    return table;
  };
  EXPECT_EQ(hex_of(down), std::pair(bson::Type::int64, std::string("fdffffffffffffff")));
  EXPECT_EQ(hex_of(with({{"output", "int32"}})),
            std::pair(bson::Type::int32, std::string("fdffffff")));
  EXPECT_EQ(hex_of(with({{"output", "string"}, {"format.pad", "3"}, {"format.prefix", "N"}})),
            std::pair(bson::Type::string, std::string("060000004e2d30303300")));
}

TEST(Counter, EndsAtBothEndsOfInt64) {
  Bound up(Table{{"start", "9223372036854775806"}, {"block.size", "1"}});
  EXPECT_EQ(up.next(1), (Numbers{9223372036854775806}));
  Bound down(Table{{"start", "-9223372036854775807"}, {"step", "-1"}, {"block.size", "1"}});
  EXPECT_EQ(down.next(1), (Numbers{-9223372036854775807}));
}

TEST(Counter, EachCollectionHasItsOwn) {
  Bound bound(Table{{"ns", "shop.*"}});
  (void)bound.rule->bind("shop.bills", &bound.store);
  (void)bound.rule->bind("shop.orders", &bound.store);
  ASSERT_EQ(bound.store.counters.size(), 2U);
  EXPECT_TRUE(bound.store.counters.contains("shop.orders.number"));
  EXPECT_TRUE(bound.store.counters.contains("shop.bills.number"));
  EXPECT_EQ(bound.store.fields[0].ns, "shop.orders");
  EXPECT_EQ(bound.store.fields[1].ns, "shop.bills");
}

TEST(Counter, OneForAllIfItHasAName) {
  for (const char* key : {"name", "store.key"}) {
    Bound bound(Table{{"ns", "shop.*"}, {key, "all"}, {"block", "100"}});
    const auto bills = bound.rule->bind("shop.bills", &bound.store).source;
    ASSERT_EQ(bound.store.counters.size(), 1U);
    EXPECT_EQ(bound.store.counters.begin()->first, "all");
    EXPECT_EQ(bound.store.fields[1], (CounterField{"shop.*", "number", {}}));
    EXPECT_EQ(bound.next(1), (Numbers{1}));
    Values values;
    ASSERT_TRUE(bills->next(1, values));
    EXPECT_EQ(bound.numbers_of(values), (Numbers{2}));
  }
}

TEST(Counter, NamesWhereItsCountersLie) {
  const auto ns_of = [](const Table& table) {
    return Bound(table).rule->about().counter->place.ns();
  };
  EXPECT_EQ(ns_of({}), "idproxy.uniqueIdentifierCounter");
  EXPECT_EQ(ns_of({{"store.db", "shop"}, {"store.layout", "ids-index"}}), "shop.ids");
}

TEST(Counter, PatienceIsTheRules) {
  EXPECT_EQ(Bound(Table{}).strategy->patience(), 2s);
  EXPECT_EQ(Bound(Table{{"on_store_down.action", "wait"}}).strategy->patience(), 1s);
  EXPECT_EQ(Bound(Table{{"on_store_down.action", "wait"}, {"on_store_down.wait", "0ms"}})
                .strategy->patience(),
            0s);
  EXPECT_EQ(Bound(Table{{"on_store_down.wait", "100ms"}}).strategy->patience(), 2s);
}

TEST(Counter, TakesUnusedValuesBack) {
  for (const char* output : {"int64", "int32", "string"}) {
    Bound bound(Table{{"output", output}, {"step", "3"}});
    EXPECT_EQ(bound.next(5), (Numbers{1, 4, 7, 10, 13}));
    bound.strategy->take_back(bound.values, std::vector<std::uint32_t>{0, 1, 3});
    EXPECT_EQ(bound.next(4), (Numbers{1, 4, 10, 16})) << output;
  }
}

TEST(Counter, CollisionsOfOneRequestHeal) {
  Bound bound(Table{{"heal.after", "3"}});
  (void)bound.next(5);
  EXPECT_FALSE(bound.strategy->in_a_row());
  bound.strategy->collided(bound.values, std::vector<std::uint32_t>{0, 1}, 2, Taken::in_batch);
  EXPECT_TRUE(bound.strategy->in_a_row());
  bound.strategy->went_well();  // another request
  EXPECT_FALSE(bound.strategy->in_a_row());
  bound.strategy->collided(bound.values, std::vector<std::uint32_t>{2}, 3, Taken::in_batch);
  ASSERT_TRUE(bound.counter().work());
  EXPECT_EQ(bound.counter().jobs.back().kind, CounterJob::Kind::heal);
}

TEST(Counter, OneCollisionInATransactionHeals) {
  Bound bound(Table{});
  (void)bound.next(5);
  bound.strategy->collided(bound.values, std::vector<std::uint32_t>{4}, 1, Taken::in_transaction);
  ASSERT_TRUE(bound.counter().work());
  EXPECT_EQ(bound.counter().jobs.back().kind, CounterJob::Kind::heal);
}

}  // namespace counter_test
}  // namespace idproxy::ids
