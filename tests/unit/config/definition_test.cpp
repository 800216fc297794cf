#include "config/definition.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace definition_test {

std::string text_of(const std::string& yaml) {
  Findings findings;
  const auto tree = parse_tree(yaml, findings);
  EXPECT_EQ(findings.errors(), 0U) << yaml;
  return tree ? canonical_text(*tree) : "";
}

TEST(CanonicalText, SortsKeysAndKeepsTheOrderOfLists) {
  EXPECT_EQ(text_of("{strategy: uuid, digits: 12, a: [true, \"true\", null, {c: 1, b: x}]}"),
            R"({"a":[true,"true",null,{"b":"x","c":1}],"digits":12,"strategy":"uuid"})");
  EXPECT_EQ(text_of("b: 1\na:\n  d: 2\n  c: 3\n"), text_of("{a: {c: 3, d: 2}, b: 1}"));
  EXPECT_NE(text_of("[1, 2]"), text_of("[2, 1]"));
}

struct Case {
  const char* name;
  const char* a;
  const char* b;
  bool same;
};

TEST(CanonicalText, DiffersWhereTheMeaningDoes) {
  constexpr Case kCases[] = {
      {"quotes_of_text", "a: uuid", "a: 'uuid'", true},
      {"quotes_of_a_duration", "a: 5s", "a: \"5s\"", true},
      {"number_and_text", "a: 1", "a: '1'", false},
      {"fraction_and_text", "a: 0.5", "a: '0.5'", false},
      {"boolean_and_text", "a: false", "a: 'false'", false},
      {"null_and_text", "a: null", "a: 'null'", false},
      {"null_and_tilde", "a: null", "a: ~", true},
      {"null_and_nothing", "a: null", "a:", true},
      {"comment", "a: 1 # once", "a: 1", true},
      {"case", "a: x", "a: X", false},
      {"quote_inside", R"(a: 'x","b":"y')", "{a: x, b: y}", false},
      {"backslash_inside", R"({a: 'x\', b: y})", R"(a: 'x\","b":"y')", false},
      {"empty_mapping_and_list", "a: {}", "a: []", false},
      {"empty_text_and_null", "a: ''", "a:", false},
  };
  for (const Case& c : kCases) EXPECT_EQ(text_of(c.a) == text_of(c.b), c.same) << c.name;
}

rewrite::Rule rule_of(const std::string& rule, const std::string& more = "") {
  const Loaded loaded = load(more + "\nrules: [{ns: a.b, field: c, " + rule + "}]\n");
  EXPECT_TRUE(loaded.ok()) << rule;
  return loaded.ok() ? loaded.config.rules.at(0) : rewrite::Rule();
}
std::string source_of(const std::string& rule, const std::string& more = "") {
  return rule_of(rule, more).source;
}

TEST(Definition, IsAllThatWasConfigured) {
  const auto counter = rule_of("strategy: counter, start: 5").definition;
  EXPECT_EQ(rule_of("start: 5, strategy: 'counter'").definition, counter);
  EXPECT_NE(rule_of("strategy: counter, start: 6").definition, counter);
  EXPECT_NE(rule_of("strategy: counter, start: 5, report: true").definition, counter);
}

TEST(Definition, HasDottedKeys) {
  const auto keys = rule_of("strategy: counter, block: {size: 7}, scope: [t], store: {db: x}");
  EXPECT_EQ(keys.definition, (std::map<std::string, std::string>{{"block.size", "7"},
                                                                 {"field", "\"c\""},
                                                                 {"ns", "\"a.b\""},
                                                                 {"scope", "[\"t\"]"},
                                                                 {"store.db", "\"x\""},
                                                                 {"strategy", "\"counter\""}}));
}

TEST(Source, IsWhatValuesDependOn) {
  const std::string counter = source_of("strategy: counter, start: 5");
  EXPECT_EQ(source_of("start: 5, strategy: 'counter'"), counter);
  EXPECT_NE(source_of("strategy: counter, start: 6"), counter);
  EXPECT_NE(source_of("strategy: counter, start: 5, block: {size: 7}"), counter);
  EXPECT_NE(source_of("strategy: counter, start: 5, unique_index: require"), counter);
  // Its numbers come from another document then.
  EXPECT_NE(source_of("strategy: counter, start: 5", "id_store: {db: other}"), counter);
}

TEST(Source, IsTheSameHoweverValuesArePutIntoDocuments) {
  const std::string counter = source_of("strategy: counter, start: 5");
  for (const char* more : {"report: true", "retry: {attempts: 3}", "in_transaction: surface",
                           "assign: always", "assign: missing-or-null", "driver_window: 9s"}) {
    EXPECT_EQ(source_of(std::string("strategy: counter, start: 5, ") + more), counter) << more;
  }
}

TEST(Source, HasVariablesReplaced) {
  const std::string rule = "strategy: counter, name: '${IDPROXY_TEST_NAME}'";
  ::setenv("IDPROXY_TEST_NAME", "one", 1);
  const std::string one = source_of(rule);
  ::setenv("IDPROXY_TEST_NAME", "two", 1);
  EXPECT_NE(source_of(rule), one);
  EXPECT_EQ(source_of("strategy: counter, name: one"), one);
}

}  // namespace definition_test
}  // namespace idproxy::config
