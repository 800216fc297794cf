#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "idproxy/ids/rule_source.hpp"
#include "support/counter_store.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::ids {
namespace counter_sequences_test {

using namespace std::chrono_literals;
using test::CounterStore;
using Table = test::FakeParameters::Table;
using Texts = std::vector<std::string>;

// 2025-12-31T22:59:58Z: in Berlin, two seconds before midnight
constexpr std::chrono::seconds kNewYearsEve{1767221998};

/// A rule with several sequences, bound to a collection.
class CounterSequencesTest : public ::testing::Test {
 protected:
  std::unique_ptr<RuleSource> make(Table table) {
    table.emplace("ns", "shop.orders");
    table.emplace("field", "number");
    table.emplace("block.size", "10");
    test::FakeParameters parameters(table);
    auto made = test::make_strategy("counter", parameters, {clock, random});
    errors = parameters.errors();
    warnings = parameters.warnings();
    unknown = parameters.unknown();
    return made;
  }
  void bind(const Table& table) {
    rule = make(table);
    ASSERT_EQ(errors, Texts());
    ASSERT_EQ(unknown, Texts());
    bound = rule->bind("shop.orders", &store);
    ASSERT_NE(bound.sequences, nullptr);
  }
  /// For a document with the fields of the rule; "" is a missing one.
  std::shared_ptr<Source> sequence(const Texts& texts = {}) {
    Buffer document;
    bson::Scope scope(document);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      bson::append_string(document, std::to_string(i), texts[i]);
    }
    scope.close();
    std::vector<FieldValue> values;
    bson::Elements elements(document.view());
    while (const auto element = elements.next()) {
      values.push_back({FieldValue::Is::there, *element});
      if (element->text().empty()) values.back() = {};
    }
    EXPECT_EQ(bound.sequences->refusal(values), "");
    return bound.sequences->sequence(values);
  }
  test::BlockCaches& newest() {
    const CounterPlace& place = store.specs.back().place;
    return *store.counters.at(place.filter + place.key);
  }
  /// The next values, as texts.
  static Texts next(Source& sequence, std::size_t n, test::BlockCaches& counter) {
    Values values;
    test::draw(sequence, n, values, [&] { counter.work(); });
    Texts texts;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Bytes value = values[i];
      texts.emplace_back(values.type() == bson::Type::string
                             ? as_text(value.subspan(4, value.size() - 5))
                             : std::to_string(load_i64(value.data())));
    }
    return texts;
  }

  /// The next values of the sequence whose counter is the newest.
  Texts next(const std::shared_ptr<Source>& sequence, std::size_t n) {
    return next(*sequence, n, newest());
  }

  test::FakeClock clock{kNewYearsEve};
  test::SeededRandom random;
  CounterStore store;
  std::unique_ptr<RuleSource> rule;
  RuleSource::Bound bound;
  Texts errors;
  Texts warnings;
  Texts unknown;
};

TEST_F(CounterSequencesTest, BeginAgainWithEachPeriod) {
  bind({{"output", "string"},
        {"template", "INV-{yyyy}-{counter:06}"},
        {"reset", "yearly"},
        {"timezone", "Europe/Berlin"}});
  const auto before = sequence();
  EXPECT_EQ(next(*before, 2, newest()), (Texts{"INV-2025-000001", "INV-2025-000002"}));
  EXPECT_EQ(sequence(), before);
  clock.advance(2s);
  const auto after = sequence();
  ASSERT_EQ(store.counters.size(), 2U);
  EXPECT_EQ(next(*after, 1, newest()), (Texts{"INV-2026-000001"}));
  // What began before midnight goes on as it began.
  EXPECT_EQ(next(*before, 1, newest()), (Texts{"INV-2025-000003"}));
  EXPECT_EQ(store.fields[1].format.prefix, "INV-2026-");
  EXPECT_EQ(store.specs[1].place.key_is, CounterPlace::KeyIs::document);
}

TEST_F(CounterSequencesTest, GoOnIfOnlyTheTextShowsTheDate) {
  bind({{"output", "string"}, {"template", "{yyyy}{MM}{dd}-{counter:03}"}});
  EXPECT_EQ(next(sequence(), 1), (Texts{"20251231-001"}));
  clock.advance(2h);
  EXPECT_EQ(next(sequence(), 1), (Texts{"20260101-002"}));
  EXPECT_EQ(store.counters.size(), 1U);
  EXPECT_EQ(store.fields[0].format.pattern, "^[0-9]{4}[0-9]{2}[0-9]{2}\\-(-?[0-9]{3,})\\z");
  EXPECT_EQ(store.specs[0].place.key_is, CounterPlace::KeyIs::text);
}

TEST_F(CounterSequencesTest, AreTheSameForDocumentsOfAScope) {
  bind({{"scope", "tenant"}});
  EXPECT_EQ(next(sequence({"a"}), 2), (Texts{"1", "2"}));
  EXPECT_EQ(next(sequence({"b"}), 1), (Texts{"1"}));
  EXPECT_EQ(next(sequence({"a"}), 1), (Texts{"3"}));
  EXPECT_EQ(store.counters.size(), 2U);
  EXPECT_NE(store.fields[0].scope, store.fields[1].scope);
}

TEST_F(CounterSequencesTest, OfAnotherCollectionAreOthers) {
  rule = make({{"ns", "shop.*"}, {"scope", "tenant"}});
  for (const char* ns : {"shop.orders", "shop.bills"}) {
    bound = rule->bind(ns, &store);
    EXPECT_EQ(next(sequence({"a"}), 1), (Texts{"1"})) << ns;
    EXPECT_EQ(store.fields.back().ns, ns);
  }
  EXPECT_EQ(store.counters.size(), 2U);
}

/// {name: value}
std::string document_of(std::string_view name, std::string_view value) {
  Buffer out;
  bson::Scope scope(out);
  bson::append_string(out, name, value);
  scope.close();
  return std::string(as_text(out.view()));
}

TEST_F(CounterSequencesTest, OfMongooseSequenceHaveTheirScopeInAFieldOfItsOwn) {
  rule = make({{"ns", "shop.*"}, {"scope", "tenant"}, {"store.layout", "mongoose-sequence"}});
  EXPECT_EQ(errors, Texts());
  for (const char* ns : {"shop.orders", "shop.bills"}) {
    bound = rule->bind(ns, &store);
    EXPECT_EQ(next(sequence({"a"}), 2), (Texts{"1", "2"}));
    CounterPlace place = store.specs.back().place;
    EXPECT_TRUE(place.is_scope());
    EXPECT_EQ(place.ns(), "idproxy.counters");
    EXPECT_EQ(place.filter, document_of("id", std::string(ns) + ".number"));
    EXPECT_EQ(place.key_field, "reference_value");
    EXPECT_EQ(place.key, document_of("tenant", "a"));
    EXPECT_EQ(store.fields.back().scope, document_of("tenant", "a"));
    EXPECT_EQ(next(sequence({"b"}), 1), (Texts{"1"}));
    EXPECT_EQ(next(sequence({"a"}), 1), (Texts{"3"}));
  }
  EXPECT_EQ(store.counters.size(), 4U);
}

TEST_F(CounterSequencesTest, GiveTheirNumbersBackIfTheyAreTheLeastRecentlyUsed) {
  bind({{"scope", "tenant"}, {"max_scopes", "2"}});
  EXPECT_EQ(next(sequence({"a"}), 3), (Texts{"1", "2", "3"}));
  test::BlockCaches& a = newest();
  auto b = sequence({"b"});
  EXPECT_EQ(next(*b, 1, newest()), (Texts{"1"}));
  test::BlockCaches& its = newest();
  (void)sequence({"a"});
  (void)sequence({"c"});  // b is the one that goes, but a request still uses it
  EXPECT_FALSE(its.work());
  EXPECT_EQ(its.value, 11);
  b.reset();
  EXPECT_TRUE(its.work());
  EXPECT_EQ(its.value, 2);
  EXPECT_FALSE(a.work());
  EXPECT_EQ(next(*sequence({"b"}), 1, its), (Texts{"2"}));
}

TEST_F(CounterSequencesTest, AreAnnouncedOrTheirFamilyIfDocumentsDecide) {
  make({{"reset", "yearly"}, {"output", "string"}, {"template", "{yyyy}/{counter}"}})
      ->announce(store);
  EXPECT_EQ(store.counters.size(), 1U);
  EXPECT_EQ(store.specs.back().place.key_is, CounterPlace::KeyIs::document);
  make({{"scope", "tenant"}})->announce(store);
  EXPECT_EQ(store.specs.back().place.key_is, CounterPlace::KeyIs::family);
}

/// A reload makes the store forget who fills from a counter; rules that share it may be new.
TEST_F(CounterSequencesTest, AreToldToTheStoreAgainAfterAReload) {
  bind({{"scope", "tenant"}});
  const auto before = sequence({"a"});
  EXPECT_EQ(next(before, 1), (Texts{"1"}));
  (void)sequence({"a"});
  EXPECT_EQ(store.specs.size(), 1U);
  CounterStore newest;
  rule->announce(newest);
  EXPECT_EQ(newest.specs.size(), 1U) << "their family";
  EXPECT_EQ(sequence({"a"}), before) << "by the rules before, which serve until the new ones do";
  bound = rule->bind("shop.orders", &newest);
  EXPECT_EQ(sequence({"a"}), before);
  EXPECT_EQ(sequence({"a"}), before);
  EXPECT_EQ(newest.specs.size(), 2U) << "once";
  EXPECT_EQ(store.specs.size(), 1U);
  EXPECT_EQ(next(before, 1), (Texts{"2"})) << "with the numbers that it had";
}

TEST_F(CounterSequencesTest, AreNotNeededForANumberAlone) {
  rule = make({{"output", "string"},
               {"template", "{counter:04}-{check}"},
               {"check", "mod11-10"},
               {"on_width", "error"},
               {"start", "794"}});
  EXPECT_FALSE(rule->about().sequences.any());
  EXPECT_EQ(rule->about().counter->max, 9999);
  bound = rule->bind("shop.orders", &store);
  EXPECT_EQ(bound.sequences, nullptr);
  EXPECT_EQ(next(*bound.source, 1, newest()), (Texts{"0794-5"}));
}

TEST_F(CounterSequencesTest, KeepTheirWidth) {
  bind({{"output", "string"}, {"template", "{yy}-{counter:02}"}, {"on_width", "error"}});
  EXPECT_EQ(next(sequence(), 1), (Texts{"25-01"}));
  EXPECT_EQ(store.specs.back().max, 99);
}

TEST_F(CounterSequencesTest, FailIfTheirKeysMakeNoSense) {
  struct Row {
    Table table;
    Texts errors;
  };
  const Row rows[] = {
      {{{"template", "{counter}"}}, {"template: needs output: string"}},
      {{{"template", "{yyyy}"}, {"output", "string"}},
       {"template: has no {counter}: all values would be the same"}},
      {{{"template", "{counter}"}, {"output", "string"}, {"format", ""}, {"format.pad", "3"}},
       {"format: has no place beside `template`, which says all"}},
      {{{"template", "{counter}{check}"}, {"output", "string"}},
       {"template: has {check}, but `check` does not say how to compute it"}},
      {{{"check", "luhn"}}, {"check: needs output: string"}},
      {{{"timezone", "Europe/Atlantis"}, {"reset", "daily"}},
       {"timezone: must be a time zone that this host knows, such as UTC or Europe/Berlin ("
        "names below /usr/share/zoneinfo, not localtime; Debian's package is tzdata)"}},
      {{{"on_width", "error"}}, {"on_width: needs a template with a width, such as {counter:06}"}},
      {{{"on_width", "error"},
        {"template", "{counter:02}"},
        {"output", "string"},
        {"start", "100"}},
       {"start: does not fit the template's width of 2"}},
      {{{"scope", "a a"}}, {"scope: must not name a field twice"}},
      {{{"scope", "a"}, {"max_scopes", "0"}},
       {"max_scopes: must be an integer 1 to 10000000, is 0"}},
      {{{"field", "_id"}, {"scope", "a"}},
       {"scope: on _id needs a template that shows each of its fields: the sequences' values would "
        "be the same"}},
      {{{"field", "_id"},
        {"scope", "a b"},
        {"output", "string"},
        {"template", "{field:a}0{field:b}-{counter}"}},
       {"template: has a {field:…} next to another, without text other than digits in between: a "
        "and bc, ab and c would be the same value. Write text in between"}},
      {{{"field", "_id"}, {"reset", "yearly"}},
       {"reset: on _id needs a template that shows the period: values would repeat"}},
      {{{"store.layout", "mongoose-sequence"}, {"reset", "yearly"}},
       {"reset: has no place in layout mongoose-sequence, whose counters have no field for a "
        "period"}},
      {{{"heal.mode", "gap"}, {"template", "{yyyy}-{counter}"}, {"output", "string"}},
       {"heal.mode: gap needs a template whose text differs within a sequence only in {counter} "
        "and a {check} behind it: add `reset` or `scope`"}},
  };
  for (const Row& row : rows) {
    (void)make(row.table);
    EXPECT_EQ(errors, row.errors);
  }
  (void)make({{"timezone", "Europe/Berlin"}});
  EXPECT_EQ(warnings,
            (Texts{"timezone: has no effect: the rule has neither `reset` nor a template with a "
                   "date"}));
  (void)make({{"field", "_id"},
              {"scope", "a"},
              {"template", "{field:a}-{counter}"},
              {"output", "string"}});
  EXPECT_EQ(errors, Texts());
}

}  // namespace counter_sequences_test
}  // namespace idproxy::ids
