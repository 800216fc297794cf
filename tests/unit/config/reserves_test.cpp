#include "config/reserves.hpp"

#include <string>

#include "findings_of.hpp"

namespace idproxy::config {
namespace reserves_test {

using namespace std::chrono_literals;
using ids::ReserveSpec;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string rule_with(const std::string& keys) {
  return "rules:\n  - {ns: shop.orders, " + keys + "}\n";
}

TEST(Reserve, BelongsToTheRulesDatabaseAndHasTheValueAsId) {
  const Loaded loaded =
      load(rule_with("field: number, strategy: uuid, reserve: {collection: orders__number}"));
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  ReserveSpec expected;
  expected.db = "shop";
  expected.collection = "orders__number";
  expected.parent_ns = "shop.orders";
  expected.parent_field = "number";
  ASSERT_TRUE(loaded.config.rules.at(0).reserve);
  EXPECT_EQ(*loaded.config.rules.at(0).reserve, expected);
  EXPECT_EQ(expected.name, "_id");
  EXPECT_EQ(expected.orphan_after, 24h);
  EXPECT_FALSE(load(rule_with("field: number, strategy: uuid")).config.rules.at(0).reserve);
}

TEST(Reserve, TakesAllKeys) {
  const Loaded loaded = load(rule_with(
      "field: registration.number, strategy: counter, reserve: {db: keep, collection: taken, "
      "layout: field, orphan_after: 10m}, report: true, assign: always, in_transaction: surface, "
      "retry: {attempts: 3}, unique_index: create, upserts: refuse"));
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  const auto& reserve = loaded.config.rules.at(0).reserve;
  ASSERT_TRUE(reserve);
  EXPECT_EQ(reserve->ns(), "keep.taken");
  EXPECT_EQ(reserve->layout, ReserveSpec::Layout::field);
  EXPECT_EQ(reserve->name, "number");
  EXPECT_EQ(reserve->parent_field, "registration.number");
  EXPECT_EQ(reserve->orphan_after, 10min);
  EXPECT_EQ(loaded.config.rules.at(0).unique_index, ids::UniqueIndex::create);
}

TEST(Reserve, DemandsNoUniqueIndex) {
  const Loaded loaded = load(
      rule_with("field: n, strategy: counter, reset: yearly, template: \"{yyyy}-{counter:04}\", "
                "output: string, reserve: {collection: c}"));
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  EXPECT_EQ(loaded.config.rules.at(0).unique_index, ids::UniqueIndex::warn);
}

TEST(Reserve, IsPartOfTheRuleButNotOfTheOriginOfItsValues) {
  const auto a = load(rule_with("field: n, strategy: uuid, reserve: {collection: c}"));
  const auto b = load(rule_with("field: n, strategy: uuid, reserve: {collection: d}"));
  EXPECT_NE(a.config.rules.at(0).definition, b.config.rules.at(0).definition);
  EXPECT_EQ(a.config.rules.at(0).source, b.config.rules.at(0).source);
}

struct ReserveCase {
  const char* name;
  const char* rule;
  const char* finding;
};

TEST(Reserve, ReportsWhatCannotBe) {
  constexpr ReserveCase kCases[] = {
      {"no_collection", "ns: a.b, field: x, strategy: uuid, reserve: {db: c}",
       "2:41: error: rules[0].reserve.collection: is missing"},
      {"no_mapping", "ns: a.b, field: x, strategy: uuid, reserve: c",
       "2:41: error: rules[0].reserve: must be a mapping of keys to values, is text 'c'"},
      {"unknown_key", "ns: a.b, field: x, strategy: uuid, reserve: {collection: c, name: d}",
       "2:66: error: rules[0].reserve: unknown key 'name'; known here: collection, db, layout, "
       "orphan_after"},
      {"db", "ns: a.b, field: x, strategy: uuid, reserve: {collection: c, db: a/b}",
       "2:66: error: rules[0].reserve.db: 'a/b' is not a valid database name"},
      {"servers_db", "ns: a.b, field: x, strategy: uuid, reserve: {collection: c, db: local}",
       "2:66: error: rules[0].reserve.db: must not be 'local', which belongs to the server"},
      {"collection", "ns: a.b, field: x, strategy: uuid, reserve: {collection: c$}",
       "2:51: error: rules[0].reserve.collection: 'c$' is not a valid collection name"},
      {"system", "ns: a.b, field: x, strategy: uuid, reserve: {collection: system.x}",
       "2:51: error: rules[0].reserve.collection: must not begin with system."},
      {"wildcard", "ns: a.b, field: x, strategy: uuid, reserve: {collection: 'c*'}",
       "2:51: error: rules[0].reserve.collection: must not contain '*' or '?'"},
      {"own", "ns: a.b, field: x, strategy: uuid, reserve: {collection: b}",
       "2:51: error: rules[0].reserve.collection: must not be the rule's own collection"},
      {"counter",
       "ns: a.b, field: x, strategy: counter, store: {db: a, collection: c}, "
       "reserve: {collection: c}",
       "2:85: error: rules[0].reserve.collection: must not be the collection of the rule's "
       "counter"},
      {"layout", "ns: a.b, field: x, strategy: uuid, reserve: {collection: c, layout: fields}",
       "2:66: error: rules[0].reserve.layout: must be one of id or field, is text 'fields', did "
       "you mean 'field'?"},
      {"too_young", "ns: a.b, field: x, strategy: uuid, reserve: {collection: c, orphan_after: 5m}",
       "2:66: error: rules[0].reserve.orphan_after: must be a duration of 10m to 8760h, is 5m"},
      {"parent_id",
       "ns: a.b, field: x.parent_id, strategy: uuid, reserve: {collection: c, layout: field}",
       "2:76: error: rules[0].reserve.layout: must be id: with field, the value would be in the "
       "field 'parent_id' of a reservation, which has another meaning there"},
      {"at", "ns: a.b, field: at, strategy: uuid, reserve: {collection: c, layout: field}",
       "2:67: error: rules[0].reserve.layout: must be id: with field"},
      {"inner_id", "ns: a.b, field: x._id, strategy: uuid, reserve: {collection: c, layout: field}",
       "2:70: error: rules[0].reserve.layout: must be id: with field"},
      {"of_id", "ns: a.b, field: _id, strategy: uuid, assign: missing, reserve: {collection: c}",
       "2:60: error: rules[0].reserve: does not work with field: _id: a reservation names its "
       "document by its _id"},
      {"gapless", "ns: a.b, field: x, strategy: gapless, reserve: {collection: c}",
       "2:44: error: rules[0].reserve: does not work with gapless: a reservation whose document is "
       "not stored would be a gap"},
      {"wildcards", "ns: 'a.*', field: x, strategy: uuid, reserve: {collection: c}",
       "2:43: error: rules[0].reserve: needs an ns without wildcards"},
      {"scope", "ns: a.b, field: x, strategy: counter, scope: [t], reserve: {collection: c}",
       "2:56: error: rules[0].reserve: does not work with scope"},
      {"reset", "ns: a.b, field: x, strategy: counter, reset: yearly, reserve: {collection: c}",
       "2:59: error: rules[0].reserve: does not work with reset and a template that does not show "
       "the period"},
  };
  for (const ReserveCase& c : kCases) {
    EXPECT_THAT(findings_of(std::string("rules:\n  - {") + c.rule + "}\n"),
                testing::Contains(HasSubstr(c.finding)))
        << c.name;
  }
}

TEST(Reserve, NeedsACollectionThatNoOtherRuleUses) {
  constexpr ReserveCase kCases[] = {
      {"shared", "ns: a.other, field: y, strategy: uuid, reserve: {collection: c}",
       "3:45: error: rules[1].reserve: 'a.c' has the reservations of rules[0], and each rule needs "
       "a collection of its own"},
      {"documents", "ns: a.c, field: y, strategy: uuid",
       "3:6: error: rules[1].ns: 'a.c' is never touched: rules[0] keeps its reservations there"},
      {"counters", "ns: a.other, field: y, strategy: counter, store: {db: a, collection: c}",
       "3:29: error: rules[1].strategy: 'a.c' cannot hold counters: rules[0] keeps its "
       "reservations "
       "there"},
      {"of_documents", "ns: a.other, field: y, strategy: uuid, reserve: {collection: b}",
       "3:45: error: rules[1].reserve: 'a.b' has the documents of rules[0]"},
      {"none", "ns: a.other, field: y, strategy: uuid, reserve: {collection: d}", nullptr},
      {"another_db", "ns: x.other, field: y, strategy: uuid, reserve: {collection: c}", nullptr},
  };
  const std::string first =
      "rules:\n  - {ns: a.b, field: x, strategy: uuid, reserve: {collection: c}}\n  - {";
  for (const ReserveCase& c : kCases) {
    const auto findings = findings_of(first + c.rule + "}\n");
    if (c.finding == nullptr) {
      EXPECT_THAT(findings, IsEmpty()) << c.name;
    } else {
      EXPECT_THAT(findings, ElementsAre(HasSubstr(c.finding))) << c.name;
    }
  }
  EXPECT_THAT(findings_of("rules:\n"
                          "  - {ns: a.b, field: x, strategy: counter, store: {db: a, collection: "
                          "c}}\n"
                          "  - {ns: a.d, field: y, strategy: uuid, reserve: {collection: c}}\n"),
              ElementsAre(HasSubstr("3:41: error: rules[1].reserve: 'a.c' has the counters of "
                                    "rules[0]")));
}

TEST(Reserve, NamesItsDocumentBeforeThereIsANumber) {
  const std::string reserving = "{ns: a.b, field: x, strategy: uuid, reserve: {collection: c}}";
  const std::string ids = "{ns: 'a.*', field: _id, assign: missing, strategy: gapless}";
  EXPECT_THAT(findings_of("rules:\n  - " + reserving + "\n  - " + ids + "\n"),
              ElementsAre(HasSubstr("3:46: error: rules[1].strategy: gapless numbers for _id and "
                                    "`reserve` for another field do not go together")));
  EXPECT_THAT(findings_of("rules:\n  - " + ids + "\n  - " + reserving + "\n"),
              ElementsAre(HasSubstr("3:41: error: rules[1].reserve: gapless numbers for _id")));
}

}  // namespace reserves_test
}  // namespace idproxy::config
