#include "config/counters.hpp"

#include "findings_of.hpp"
#include "idproxy/ids/rule_source.hpp"

// Rules with counters, as the file says them; what the strategy checks by itself: counter_test.cpp.
namespace idproxy::config {
namespace counters_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

std::vector<std::string> faults_of(const std::string& keys) {
  return findings_of("rules:\n  - {ns: a.b, field: x, strategy: counter,\n" + keys + "}\n");
}

TEST(Counters, TakeAllKeysWithTheirDefaults) {
  EXPECT_THAT(findings_of("rules: [{ns: a.b, field: x, strategy: counter}]\n"), IsEmpty());
  EXPECT_THAT(
      faults_of("name: orders, start: 1, step: 1, max: 9223372036854775807,\n"
                "block: auto,\n"
                "store: {db: idproxy, collection: uniqueIdentifierCounter, layout: unique-count, "
                "key: null},\n"
                "heal: {mode: max, after: 2, max_jump: 1000000000, at_start: false},\n"
                "on_store_down: {action: fail, wait: 1s}, output: string,\n"
                "format: {pad: 0, prefix: '', suffix: ''}"),
      IsEmpty());
}

struct Case {
  const char* name;
  const char* keys;
  const char* finding;
};

TEST(Counters, RefuseBadParameters) {
  constexpr Case kCases[] = {
      {"step_zero", "step: 0", "3:1: error: rules[0].step: must not be 0"},
      {"block_list", "block: [100]",
       "3:1: error: rules[0].block: must be auto or an integer 1 to 10000, is a list"},
      {"sise", "block: {sise: 100}",
       "3:9: error: rules[0].block: unknown key 'sise', did you mean 'size'?"},
      {"prefetch", "block: {size: 10, prefetch: 1}",
       "3:19: warning: rules[0].block.prefetch: has no effect any more"},
      {"format_without_string", "format: {pad: 5}",
       "3:1: error: rules[0].format: needs output: string"},
      {"name", "name: ''", "3:1: error: rules[0].name: must not be empty"},
      {"store_db", "store: {db: a/b}",
       "3:9: error: rules[0].store.db: 'a/b' is not a valid database name"},
      {"store_db_local", "store: {db: local}",
       "3:9: error: rules[0].store.db: must not be 'local', which belongs to the server"},
      {"store_collection", "store: {collection: a$b}",
       "3:9: error: rules[0].store.collection: 'a$b' is not a valid collection name"},
      {"store_collection_system", "store: {collection: system.ids}",
       "3:9: error: rules[0].store.collection: must not begin with system."},
      {"field_without_custom", "store: {value_field: seq}",
       "3:9: error: rules[0].store: unknown key 'value_field'"},
      {"scope_path", "scope: [a..b]", "3:1: error: rules[0].scope: has an empty part"},
      {"scope_twice", "scope: [a, a]", "3:1: error: rules[0].scope: must not name a field twice"},
      {"scope_within", "scope: [a.b, a]",
       "3:1: error: rules[0].scope: must not name 'a.b', which lies within 'a'"},
      {"scope_itself", "scope: [x.y]",
       "3:1: error: rules[0].scope: must not name the rule's own field 'x', or a part of it"},
      {"scope_index", "scope: [a], unique_index: warn",
       "3:13: warning: rules[0].unique_index: warn does not suffice"},
      {"template_token", "output: string, template: '{year}-{counter}'",
       "3:17: error: rules[0].template: has {year}, which is no token"},
      {"template_itself", "output: string, template: '{field:x}-{counter}'",
       "3:17: error: rules[0].template: has {field:x}: a field must not name the rule's own field"},
      {"reset_word", "reset: weekly",
       "3:1: error: rules[0].reset: must be one of none, yearly, monthly or daily"},
      {"reset_in_layout", "store: {layout: mongoose-sequence}, reset: yearly",
       "3:37: error: rules[0].reset: has no place in layout mongoose-sequence, whose counters have "
       "no field for a period"},
      {"key_field_in_layout", "store: {layout: mongoose-sequence, key_field: id}",
       "3:36: error: rules[0].store: unknown key 'key_field'"},
      {"layout_of_the_plugin", "store: {layout: mongoose_sequence}",
       "did you mean 'mongoose-sequence'?"},
      {"timezone", "reset: daily, timezone: Europe/Atlantis",
       "3:15: error: rules[0].timezone: must be a time zone that this host knows"},
      {"own_collection", "store: {db: a, collection: b}",
       "2:6: error: rules[0].ns: 'a.b' is never touched: this rule keeps its counters there"},
  };
  for (const Case& c : kCases) {
    EXPECT_THAT(faults_of(c.keys), ElementsAre(HasSubstr(c.finding))) << c.name;
  }
}

TEST(Counters, RulesWhoseValuesRepeatRequireAnIndex) {
  const auto demanded = [](const std::string& keys) {
    const Loaded loaded = load("rules:\n  - {ns: a.b, field: x, strategy: counter" + keys + "}\n");
    EXPECT_THAT(texts_of(loaded.findings), IsEmpty()) << keys;
    return loaded.config.rules.at(0).unique_index;
  };
  using ids::UniqueIndex;
  EXPECT_EQ(demanded(""), UniqueIndex::warn);
  EXPECT_EQ(demanded(", scope: []"), UniqueIndex::warn);
  EXPECT_EQ(demanded(", scope: [tenant, site.name]"), UniqueIndex::require);
  EXPECT_EQ(demanded(", scope: [tenant], unique_index: create"), UniqueIndex::create);
  EXPECT_EQ(demanded(", reset: daily"), UniqueIndex::require);
  EXPECT_EQ(demanded(", reset: yearly, output: string, template: '{yy}/{counter}'"),
            UniqueIndex::warn);
}

TEST(Counters, KeysOfEarlierReleasesAreNamedOneByOne) {
  EXPECT_THAT(
      faults_of("block: {size: 100, adaptive: false, min: 1,\n"
                "max: 10000, target: 10s, prefetch: 0.5, give_back: true, idle: 60s}"),
      UnorderedElementsAre("3:20: warning: rules[0].block.adaptive: has no effect any more",
                           "3:37: warning: rules[0].block.min: has no effect any more",
                           "4:1: warning: rules[0].block.max: has no effect any more",
                           "4:13: warning: rules[0].block.target: has no effect any more",
                           "4:26: warning: rules[0].block.prefetch: has no effect any more",
                           "4:41: warning: rules[0].block.give_back: has no effect any more",
                           "4:58: warning: rules[0].block.idle: has no effect any more"));
}

TEST(Counters, ABlockIsAutoOrASize) {
  const auto size = [](const std::string& block) {
    const Loaded loaded = load("rules:\n  - {ns: a.b, field: x, strategy: counter" + block + "}\n");
    EXPECT_THAT(texts_of(loaded.findings), IsEmpty()) << block;
    return loaded.config.rules.at(0).strategy->about().counter->block.size;
  };
  EXPECT_EQ(size(""), std::nullopt);
  EXPECT_EQ(size(", block: auto"), std::nullopt);
  EXPECT_EQ(size(", block: 'auto'"), std::nullopt);
  EXPECT_EQ(size(", block: {}"), std::nullopt);
  EXPECT_EQ(size(", block: {size: auto}"), std::nullopt);
  EXPECT_EQ(size(", block: 100"), 100U);
  EXPECT_EQ(size(", block: {size: 10000}"), 10'000U);
}

TEST(Counters, ACustomLayoutNamesItsFields) {
  const Loaded loaded = load(
      "rules:\n"
      "  - {ns: a.b, field: x, strategy: counter, store: {layout: custom, collection: c, key: k,\n"
      "     key_field: id, value_field: seq, value_is: last, filter: {model: Order, n: -12,\n"
      "     s: '12', t: true, f: false, z: null}}}\n");
  EXPECT_THAT(texts_of(loaded.findings), IsEmpty());
  ASSERT_EQ(loaded.config.rules.size(), 1U);
  const ids::CounterPlace& place = loaded.config.rules[0].strategy->about().counter->place;
  EXPECT_EQ(place.db, "idproxy");
  EXPECT_EQ(place.key, "k");
  using namespace std::string_literals;
  EXPECT_EQ(place.filter,
            "\x36\0\0\0"
            "\x02model\0\x06\0\0\0Order\0"
            "\x12n\0\xf4\xff\xff\xff\xff\xff\xff\xff"
            "\x02s\0\x03\0\0\0"
            "12\0"
            "\x08t\0\x01"
            "\x08"
            "f\0\0"
            "\x0az\0\0"s);
  EXPECT_THAT(faults_of("store: {layout: custom}"),
              ElementsAre(HasSubstr("store.collection: must name a collection"),
                          HasSubstr("store.key_field: is missing"),
                          HasSubstr("store.value_field: is missing"),
                          HasSubstr("store.value_is: is missing; must be next or last")));
}

TEST(Counters, AFilterHoldsScalars) {
  const auto filter = [](const std::string& members) {
    return faults_of(
        "store: {layout: custom, collection: c, key_field: id, value_field: seq, value_is: last,\n"
        "filter: " +
        members + "}");
  };
  EXPECT_THAT(filter("{}"), IsEmpty());
  EXPECT_THAT(filter("null"), IsEmpty());
  EXPECT_THAT(filter("text"),
              ElementsAre("4:1: error: rules[0].store.filter: must be a mapping of names to "
                          "values, is text 'text'"));
  EXPECT_THAT(filter("{a: [1], b: 1.5, $c: 1, d.e: 1, f: 9223372036854775808}"),
              ElementsAre(HasSubstr("4:10: error: rules[0].store.filter.a: must be text, an "
                                    "integer of 64 bits, true, false or null, is a list"),
                          HasSubstr("filter.b: must be text, an integer of 64 bits, true, false or "
                                    "null, is 1.5 (quote it to make it text)"),
                          HasSubstr("filter.$c: is not the name of a top-level field"),
                          HasSubstr("filter.d.e: is not the name of a top-level field"),
                          HasSubstr("filter.f: must be text")));
  EXPECT_THAT(filter("{seq: 1}"),
              ElementsAre("4:1: error: rules[0].store.filter: must not name 'seq', which is the "
                          "counter's own"));
}

TEST(Counters, OfMongooseSequenceShareTheirCollectionWithNoOtherLayout) {
  const auto faults = [](const std::string& first, const std::string& second) {
    const auto rule = [](const std::string& ns, const std::string& store) {
      return "  - {ns: " + ns +
             ", field: x, strategy: counter, store: {db: shop, layout: " + store + "}}\n";
    };
    return findings_of("rules:\n" + rule("a.b", first) + rule("a.c", second));
  };
  EXPECT_THAT(faults("mongoose-sequence", "mongoose-sequence"), IsEmpty());
  EXPECT_THAT(faults("mongoose-sequence", "unique-count"), IsEmpty());
  EXPECT_THAT(faults("mongoose-sequence", "counters-seq, collection: more"), IsEmpty());
  EXPECT_THAT(
      faults("mongoose-sequence",
             "custom, collection: counters, key_field: id, value_field: seq, value_is: last"),
      IsEmpty())
      << "the index tells these apart";
  const std::string text =
      "keeps its counter in shop.counters, and so does rules[0] in another layout: the unique "
      "index "
      "of mongoose-sequence lets one document of other layouts be there. Set store.collection for "
      "one of them";
  EXPECT_THAT(faults("mongoose-sequence", "counters-seq"),
              ElementsAre(testing::EndsWith("rules[1].strategy: " + text)));
  EXPECT_THAT(faults("counters-next", "mongoose-sequence"),
              ElementsAre(testing::EndsWith("rules[1].strategy: " + text)));
}

TEST(Counters, OneDocumentIsUsedInOneWay) {
  const auto faults = [](const std::string& second) {
    return findings_of(
        "rules:\n  - {ns: a.b, field: x, strategy: counter, name: n}\n"
        "  - {ns: a.c, field: x, strategy: counter, " +
        second + "}\n");
  };
  EXPECT_THAT(faults("name: n"), IsEmpty());
  EXPECT_THAT(faults("step: 2"), IsEmpty());
  EXPECT_THAT(faults("name: n, store: {db: other, layout: ids-index}"), IsEmpty());
  EXPECT_THAT(faults("name: n, step: 2"),
              ElementsAre("3:25: error: rules[1].strategy: uses the counter document 'n' of "
                          "rules[0], but not with the same layout, step and output"));
  EXPECT_THAT(faults("store: {key: n}, output: string"), testing::SizeIs(1));
  const auto custom = [](const std::string& keys) {
    return "name: n, store: {layout: custom, collection: uniqueIdentifierCounter, " + keys + "}";
  };
  EXPECT_THAT(faults(custom("key_field: _id, value_field: COUNT, value_is: last")),
              testing::SizeIs(1));
  EXPECT_THAT(faults(custom("key_field: k, value_field: COUNT, value_is: next")),
              testing::SizeIs(1));
  EXPECT_THAT(faults("name: n, block: {size: 10}"),
              ElementsAre(HasSubstr("3:25: warning: rules[1].strategy: shares the counter document "
                                    "'n' of rules[0], but not its start, max, block")));
}

TEST(Counters, OneDocumentHasACounterInEachField) {
  const auto rule = [](const std::string& field, const std::string& keys) {
    return "  - {ns: f." + field + ", field: n, strategy: counter, store: {layout: custom, " +
           "collection: objects, key_field: _key, key: global, value_is: last, value_field: " +
           field + "}" + keys + "}\n";
  };
  EXPECT_THAT(findings_of("rules:\n" + rule("nextUid", "") + rule("nextTid", ", step: 2")),
              IsEmpty());
  EXPECT_THAT(findings_of("rules:\n  - {ns: a.b, field: x, strategy: counter, name: n}\n"
                          "  - {ns: a.c, field: x, strategy: counter, name: n, store: "
                          "{layout: counters-seq, collection: uniqueIdentifierCounter}}\n"),
              IsEmpty());
}

TEST(Counters, TheNameOfACollectionsOwnCounterIsKnown) {
  EXPECT_THAT(findings_of("rules:\n  - {ns: a.b, field: x, strategy: counter}\n"
                          "  - {ns: a.c, field: x, strategy: counter, name: a.b.x, step: 2}\n"),
              ElementsAre(HasSubstr("3:25: error: rules[1].strategy: uses the counter document "
                                    "'a.b.x' of rules[0]")));
}

TEST(Counters, ACollectionsOwnCounterIsNotUsedByChance) {
  const auto faults = [](const std::string& first, const std::string& second) {
    const auto rule = [](const std::string& keys) {
      return "  - {" + keys + ", strategy: counter}\n";
    };
    return findings_of("rules:\n" + rule(first) + rule(second));
  };
  const std::string chance =
      "rules[1].name: is missing: the rule would use the counter document 'a.b.c.x' of rules[0], "
      "which is for other values. Set it here or there";
  EXPECT_THAT(faults("ns: a.b, field: c.x", "ns: a.b.c, field: x"),
              ElementsAre(testing::EndsWith(chance)));
  EXPECT_THAT(faults("ns: a.b, field: c.x", "ns: a.*, field: x"), testing::SizeIs(1));
  EXPECT_THAT(faults("ns: a.*, field: x", "ns: a.b, field: c.x"), testing::SizeIs(1));
  EXPECT_THAT(faults("ns: a.b, field: c.x", "ns: a.b.c, field: x, name: other"), IsEmpty());
  EXPECT_THAT(faults("ns: a.b, field: x", "ns: a.*, field: x"), IsEmpty());
  EXPECT_THAT(faults("ns: a.b*, field: x", "ns: a.*, field: x"), IsEmpty());
}

TEST(Counters, TheNameOfACounterBehindAWildcardIsKnown) {
  const std::string wild = "ns: 'a.*', field: x, strategy: counter";
  const auto faults = [](const std::string& first, const std::string& second) {
    return findings_of("rules:\n  - {" + first + "}\n  - {" + second + "}\n");
  };
  const std::string named = "ns: b.c, field: y, strategy: counter, name: a.n.x";
  EXPECT_THAT(faults(wild, named), IsEmpty());
  EXPECT_THAT(faults(wild, named + ", step: 2"),
              ElementsAre(HasSubstr("error: rules[1].strategy: uses the counter document 'a.n.x' "
                                    "of rules[0], but not with the same layout, step and output")));
  EXPECT_THAT(faults(named + ", step: 2", wild),
              ElementsAre(HasSubstr("error: rules[1].strategy: uses the counter document 'a.n.x' "
                                    "of rules[0]")));
  EXPECT_THAT(faults(wild, named + ", block: {size: 10}"), ElementsAre(HasSubstr("warning")));
  EXPECT_THAT(faults(wild + ", except: [a.n]", named + ", step: 2"), IsEmpty());
  EXPECT_THAT(faults("ns: a.n, field: x, strategy: counter, name: a.n.x, step: 2", wild), IsEmpty())
      << "the first rule gives a.n its numbers";
  EXPECT_THAT(faults(wild, "ns: b.c, field: y, strategy: counter, name: a.n.y, step: 2"),
              IsEmpty());
}

TEST(Counters, NoRuleNumbersThem) {
  const std::string counting =
      "  - {ns: shop.orders, field: x, strategy: counter, store: {db: shop, layout: ids-index}}\n";
  const std::string touching = "  - {ns: shop.ids, field: x, strategy: uuid}\n";
  EXPECT_THAT(findings_of("rules:\n" + counting + touching),
              ElementsAre("3:6: error: rules[1].ns: 'shop.ids' is never touched: rules[0] keeps "
                          "its counters there"));
  EXPECT_THAT(findings_of("rules:\n" + touching + counting),
              ElementsAre("2:6: error: rules[0].ns: 'shop.ids' is never touched: rules[1] keeps "
                          "its counters there"));
  EXPECT_THAT(
      findings_of("rules:\n" + counting + "  - {ns: 'shop.i*', field: x, strategy: uuid}\n"),
      IsEmpty());
}

}  // namespace counters_test
}  // namespace idproxy::config
