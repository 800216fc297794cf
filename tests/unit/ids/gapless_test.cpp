#include <gmock/gmock.h>

#include <set>

#include "idproxy/bson/builder.hpp"
#include "idproxy/ids/gapless_queue.hpp"
#include "idproxy/ids/rule_source.hpp"
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

std::unique_ptr<RuleSource> make_rule(Table table, std::vector<std::string>* errors = nullptr) {
  table.emplace("ns", "shop.*");
  table.emplace("field", "number");
  test::FakeParameters parameters(std::move(table));
  auto strategy = test::make_strategy("gapless", parameters, {kClock, random_source});
  if (errors != nullptr) *errors = parameters.errors();
  EXPECT_THAT(parameters.unknown(), IsEmpty());
  return strategy;
}

GaplessSpec spec_of_rule(Table table) {
  return *make_rule(std::move(table))->about().gapless;
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
  EXPECT_THAT(errors, ElementsAre("start: must be an integer 0 to 999, is 1000"));
}

TEST(Gapless, EndsWhereItsTemplateSays) {
  const auto text = [](const std::string& form, Table more = {}) {
    more.insert({{"output", "string"}, {"template", form}});
    return spec_of_rule(std::move(more)).max;
  };
  EXPECT_EQ(text("INV-{counter:06}"), INT64_MAX);
  EXPECT_EQ(text("INV-{yyyy}-{counter:06}", {{"reset", "yearly"}}), INT64_MAX);
  EXPECT_EQ(text("INV-{yyyy}-{counter:06}", {{"reset", "yearly"}, {"on_width", "error"}}), 999'999);
  EXPECT_EQ(text("INV-{counter:03}", {{"on_width", "error"}}), 999);
  std::vector<std::string> errors;
  make_rule({{"on_width", "error"}}, &errors);
  EXPECT_THAT(errors, ElementsAre(testing::StartsWith("on_width: needs a template")));
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
  SequenceStore store;
  const auto source = rule->bind("shop.orders", &store).source;
  ASSERT_EQ(store.asked.size(), 1U);
  EXPECT_EQ(store.asked.front().key(), "shop.orders.number");
  EXPECT_EQ(store.asked.front().start, 10);
  ASSERT_NE(source->turn({}), nullptr);
  Values values;
  const Draw none = source->next(1, values);
  EXPECT_FALSE(none || none.needs_store()) << "only for documents";
  EXPECT_EQ(values.size(), 0U);
}

// ---- several sequences --------------------------------------------------------------------------

constexpr std::chrono::seconds kIn2026{1'798'000'000};  // 2026-12-23
constexpr std::chrono::seconds kIn2027{1'799'000'000};  // 2027-01-03

/// {tenant: text}
struct Tenant {
  explicit Tenant(std::string_view text) {
    bson::Scope document(buffer);
    bson::append_string(buffer, "tenant", text);
    document.close();
  }
  [[nodiscard]] std::vector<FieldValue> values() const {
    return {{FieldValue::Is::there, *bson::find(buffer.view(), "tenant")}};
  }
  Buffer buffer;
};

const Table kInvoices{{"scope", "tenant"},
                      {"output", "string"},
                      {"template", "{field:tenant}-{yyyy}-{counter:03}"},
                      {"reset", "yearly"},
                      {"max_scopes", "2"}};

TEST(Gapless, HasASequenceForEachScopeAndPeriod) {
  const auto rule = make_rule(kInvoices);
  SequenceStore store;
  const auto sequences = rule->bind("shop.orders", &store).sequences;
  EXPECT_THAT(store.asked, IsEmpty()) << "documents decide";
  const Tenant a("a");
  const Tenant b("b");
  const auto a26 = sequences->sequence_at(a.values(), kIn2026);
  const auto b26 = sequences->sequence_at(b.values(), kIn2026);
  EXPECT_EQ(sequences->sequence_at(a.values(), kIn2026), a26);
  const auto a27 = sequences->sequence_at(a.values(), kIn2027);
  ASSERT_EQ(store.asked.size(), 3U);
  const std::set<std::string> names{a26->name(), b26->name(), a27->name()};
  EXPECT_EQ(names.size(), 3U);
  EXPECT_EQ(store.asked[0].field.scope, as_text(a.buffer.view()));
  EXPECT_EQ(store.asked[0].field.format.prefix, "a-2026-");
  const Bytes id = as_bytes(store.asked[2].place);
  EXPECT_EQ(bson::find(id, "c")->text(), "shop.orders.number");
  EXPECT_EQ(as_text(bson::find(id, "s")->value), as_text(a.buffer.view()));
  EXPECT_EQ(bson::find(id, "p")->text(), "2027");
}

/// A write keeps the sequence that it has chosen.
TEST(Gapless, ChangesTheSequenceAtMidnightOfTheTimeZone) {
  test::FakeClock clock(std::chrono::seconds(1798758000 - 1));  // 2026-12-31T22:59:59Z
  test::FakeParameters parameters({{"ns", "shop.*"},
                                   {"field", "number"},
                                   {"output", "string"},
                                   {"template", "{yyyy}-{counter:03}"},
                                   {"reset", "yearly"},
                                   {"timezone", "Europe/Berlin"}});
  const auto rule = test::make_strategy("gapless", parameters, {clock, random_source});
  SequenceStore store;
  const auto sequences = rule->bind("shop.orders", &store).sequences;
  const auto before = sequences->sequence({});
  EXPECT_EQ(store.asked.back().field.format.prefix, "2026-");
  clock.advance(std::chrono::seconds(1));
  const auto after = sequences->sequence({});
  EXPECT_EQ(store.asked.back().field.format.prefix, "2027-");
  EXPECT_NE(before->name(), after->name());
  EXPECT_EQ(store.asked.size(), 2U);
}

TEST(Gapless, ForgetsTheLeastRecentlyUsedSequence) {
  const auto rule = make_rule(kInvoices);
  SequenceStore store;
  const auto sequences = rule->bind("shop.orders", &store).sequences;
  const auto use = [&](std::string_view name) {
    return sequences->sequence_at(Tenant(name).values(), kIn2026);
  };
  const std::weak_ptr<Source> a = use("a");
  const std::weak_ptr<Source> b = use("b");
  (void)use("a");
  const auto held = use("a");
  (void)use("c");
  EXPECT_TRUE(b.expired());
  (void)use("d");
  (void)use("e");
  EXPECT_FALSE(a.expired()) << "a write uses it";
  EXPECT_EQ(store.asked.size(), 5U);
}

TEST(Gapless, AnnouncesTodaysSequenceIfDocumentsDoNotDecide) {
  const auto rule =
      make_rule({{"output", "string"}, {"template", "{yyyy}-{counter:03}"}, {"reset", "yearly"}});
  SequenceStore store;
  const auto sequences = rule->bind("shop.orders", &store).sequences;
  ASSERT_EQ(store.asked.size(), 1U);
  EXPECT_EQ(bson::find(as_bytes(store.asked[0].place), "p")->text(), "2022");
}

/// Only the stored values tell which numbers are used.
TEST(Gapless, ShowsThePeriod) {
  std::vector<std::string> errors;
  make_rule({{"reset", "yearly"}}, &errors);
  EXPECT_THAT(errors, ElementsAre(testing::StartsWith("reset: needs a template that shows")));
}

/// Or a number could be stored twice, in two texts.
TEST(Gapless, WritesANumberInOneWayOnly) {
  const auto errors_of = [](const std::string& form, Table more = {}) {
    std::vector<std::string> errors;
    more.insert({{"output", "string"}, {"template", form}});
    make_rule(std::move(more), &errors);
    return errors;
  };
  const auto refused = ElementsAre(testing::StartsWith("template: must be the same for all"));
  EXPECT_THAT(errors_of("{yyyy}-{counter:03}"), refused);
  EXPECT_THAT(errors_of("{yyyy}{MM}-{counter:03}", {{"reset", "yearly"}}), refused);
  EXPECT_THAT(errors_of("{field:country}-{counter:03}"), refused);
  EXPECT_THAT(errors_of("{field:country}-{counter:03}", {{"scope", "tenant"}}), refused);
  EXPECT_THAT(errors_of("{yyyy}{MM}-{counter:03}", {{"reset", "monthly"}}), IsEmpty());
  EXPECT_THAT(errors_of("{field:country}-{counter:03}", {{"scope", "country"}}), IsEmpty());
  EXPECT_THAT(errors_of("{check}/{counter:03}", {{"check", "damm"}}), IsEmpty());
}

}  // namespace gapless_test
}  // namespace idproxy::ids
