#include "config/tree.hpp"

#include <cstdlib>

#include "findings_of.hpp"

namespace idproxy::config {
namespace tree_test {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> faults_of(const std::string& text) {
  Findings findings;
  (void)parse_tree(text, findings);
  return texts_of(findings.in_file_order());
}

TEST(Tree, KeepsOrderPlacesAndQuotes) {
  Findings findings;
  const auto root = parse_tree("b: 'x'\na:\n  - y\n  - {c: ~}\n", findings);
  ASSERT_TRUE(root);
  EXPECT_EQ(findings.errors(), 0U);
  ASSERT_EQ(root->kind, TreeNode::Kind::mapping);
  ASSERT_EQ(root->children.size(), 2U);
  const TreeNode& b = root->children[0];
  EXPECT_EQ(b.key, "b");
  EXPECT_EQ(b.text, "x");
  EXPECT_TRUE(b.quoted);
  EXPECT_EQ(b.place.column, 4);
  EXPECT_EQ(b.key_place.column, 1);
  const TreeNode& a = root->children[1];
  ASSERT_EQ(a.children.size(), 2U);
  EXPECT_FALSE(a.children[0].quoted);
  EXPECT_EQ(a.children[0].place.line, 3);
  EXPECT_EQ(a.children[1].children[0].kind, TreeNode::Kind::null);
}

TEST(Tree, AnEmptyFileIsNull) {
  for (const std::string text : {"", "# only a comment\n", "---\n"}) {
    Findings findings;
    const auto root = parse_tree(text, findings);
    ASSERT_TRUE(root) << text;
    EXPECT_EQ(root->kind, TreeNode::Kind::null) << text;
    EXPECT_EQ(findings.errors(), 0U) << text;
  }
}

struct Case {
  const char* name;
  std::string text;
  const char* finding;
};

TEST(Tree, RefusesWhatIsNotPlainYaml) {
  const Case kCases[] = {
      {"anchor", "a: &x 1", "1:4: error: anchors are not allowed (&x): write the value out"},
      {"tag_of_scalar", "a: 1\nb: !!str 5",
       "2:4: error: tags are not allowed ('tag:yaml.org,2002:str'): the key decides the type"},
      {"tag_of_mapping", "a: !x {b: c}",
       "1:4: error: tags are not allowed ('!x'): the key decides the type"},
      {"tag_of_list", "a: !x [b]",
       "1:4: error: tags are not allowed ('!x'): the key decides the type"},
      {"repeated_key", "a: 1\nb: 2\na: 3", "3:1: error: repeated key 'a', first in line 1"},
      {"repeated_key_inside", "x:\n  a: 1\n  'a': 3",
       "3:3: error: repeated key 'a', first in line 2"},
      {"list_as_key", "? [a]\n: 1", "1:3: error: a key must be text"},
      {"null_as_key", "~: 1", "1:1: error: a key must be text"},
      {"second_document", "a: 1\n---\nb: 2",
       "2:1: error: not valid YAML: a second document starts here: there must be one only"},
      {"not_closed", "a: {b: 1\n", "2:1: error: not valid YAML: end of map flow not found"},
      {"wrong_indentation", "a: 1\n b: 2\n", "2:3: error: not valid YAML: illegal map value"},
      {"undefined_alias", "a: *x",
       "1:4: error: not valid YAML: the referenced anchor is not defined: a value that begins with "
       "* must be in quotes, as in \"*.orders\""},
      {"pattern", "a:\n  - b: {\"\xc3\xa9\": *.orders}",
       "2:15: error: not valid YAML: the referenced anchor is not defined: a value that begins "
       "with "
       "* must be in quotes, as in \"*.orders\""},
      {"pattern_of_all", "a: *\nb: 1",
       "1:5: error: not valid YAML: alias not found after *: a value that begins with * must be in "
       "quotes, as in \"*.orders\""},
      {"at_sign", "a: @x",
       "1:4: error: not valid YAML: unknown token: a value that begins with @ must be in quotes"},
      {"tab", "a:\n\tb: 1\n",
       "2:3: error: not valid YAML: illegal map value: this line is indented with a tab: indent "
       "with spaces"},
      {"tab_behind_spaces", "a:\n  b: 1\n  \tc: 1\n",
       "3:3: error: not valid YAML: illegal tab when looking for indentation: this line is "
       "indented "
       "with a tab: indent with spaces"},
      {"control_character", "a: 1\nb: x\x04y", "2:5: error: control characters are not allowed"},
      {"nul_byte", std::string("a: x\0y", 6), "1:5: error: control characters are not allowed"},
      {"nul_by_escape", "a: \"x\\0y\"", "1:4: error: text must not contain a NUL"},
      {"latin1", "a: 1\nb: caf\xe9", "2:1: error: this line is not UTF-8 text"},
      {"utf16",
       std::string("\xff\xfe"
                   "a\0",
                   4),
       "1:4: error: control characters are not allowed"},
  };
  for (const Case& c : kCases) EXPECT_THAT(faults_of(c.text), ElementsAre(c.finding)) << c.name;
}

TEST(Tree, ReportsEachAliasOfABombAndExpandsNone) {
  EXPECT_THAT(faults_of("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b]\n"),
              ElementsAre("1:4: error: anchors are not allowed (&a): write the value out",
                          "2:4: error: anchors are not allowed (&b): write the value out",
                          "2:8: error: aliases are not allowed: write the value out",
                          "2:12: error: aliases are not allowed: write the value out",
                          "3:5: error: aliases are not allowed: write the value out"));
}

TEST(Tree, BoundsTheNesting) {
  const auto nested = [](std::size_t depth) {
    return "a: " + std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_THAT(faults_of(nested(kMaxDepth - 1)), IsEmpty());
  EXPECT_THAT(faults_of(nested(kMaxDepth)),
              ElementsAre("1:19: error: not valid YAML: nested deeper than 16 levels"));
  EXPECT_THAT(faults_of(nested(100'000)),
              ElementsAre("1:19: error: not valid YAML: nested deeper than 16 levels"));
}

TEST(Tree, BoundsTheSize) {
  EXPECT_THAT(faults_of("#" + std::string(kMaxFileBytes - 1, 'x')), IsEmpty());
  EXPECT_THAT(faults_of("#" + std::string(kMaxFileBytes, 'x')),
              ElementsAre("error: the file is larger than 1 MiB"));
}

TEST(Tree, SurvivesItsInputCutAtEachByte) {
  const std::string text = content_of(IDPROXY_SOURCE_DIR "/config/mongo-idproxy.yaml");
  ASSERT_FALSE(text.empty());
  for (std::size_t end = 0; end < text.size(); end += 7) {
    Findings findings;
    const bool parsed = parse_tree(text.substr(0, end), findings).has_value();
    // A key that is cut may be a repeated one, as `uri` of `uri_file`: an error, and a tree.
    EXPECT_TRUE(parsed || findings.errors() > 0) << "cut at " << end;
  }
}

}  // namespace tree_test

namespace environment_test {

using testing::ElementsAre;
using testing::IsEmpty;

class Environment : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("IDPROXY_TEST_PORT", "27200", 1);
    ::setenv("IDPROXY_TEST_HOST", "db1.internal", 1);
    ::setenv("IDPROXY_TEST_SECRET", "hunter2", 1);
    ::setenv("IDPROXY_TEST_NESTED", "${IDPROXY_TEST_HOST}", 1);
    ::setenv("IDPROXY_TEST_LATIN1", "caf\xe9", 1);
    ::unsetenv("IDPROXY_TEST_NOWHERE");
  }
  void TearDown() override {
    for (const char* name : {"IDPROXY_TEST_PORT", "IDPROXY_TEST_HOST", "IDPROXY_TEST_SECRET",
                             "IDPROXY_TEST_NESTED", "IDPROXY_TEST_LATIN1"}) {
      ::unsetenv(name);
    }
  }
};

TEST_F(Environment, ReplacesVariablesInValues) {
  const auto loaded = load(
      "listen: {port: \"x\"}\n"
      "upstream: {uri: 'mongodb://${IDPROXY_TEST_HOST}:27017,${IDPROXY_TEST_HOST}:27018'}\n");
  ASSERT_EQ(loaded.config.net.routes.size(), 2U);
  EXPECT_EQ(loaded.config.net.routes[1].upstream.text(), "db1.internal:27018");
}

TEST_F(Environment, GivesAPlainScalarItsTypeAfterwards) {
  const auto loaded = load("listen: {\n  port: \"${IDPROXY_TEST_PORT}\"}\n");
  EXPECT_FALSE(loaded.ok()) << "in quotes it is text";
  const auto plain = load("listen:\n  port: ${IDPROXY_TEST_PORT}\n");
  EXPECT_TRUE(plain.ok());
  EXPECT_EQ(plain.config.net.routes[0].listen.port, 27200);
}

TEST_F(Environment, ReportsWhatCannotBeReplaced) {
  EXPECT_THAT(findings_without_rules("log:\n  level: ${IDPROXY_TEST_NOWHERE}\n  format: x${}\n"),
              ElementsAre("2:10: error: environment variable 'IDPROXY_TEST_NOWHERE' is not defined",
                          "3:11: error: '${' must begin the name of an environment variable, as in "
                          "${NAME} or ${NAME:-default}"));
  EXPECT_THAT(findings_without_rules("log:\n  level: '${UNFINISHED'\n"),
              ElementsAre("2:10: error: '${' must begin the name of an environment variable, as in "
                          "${NAME} or ${NAME:-default}"));
  EXPECT_THAT(
      findings_without_rules("log:\n  level: ${IDPROXY_TEST_LATIN1}\n"),
      ElementsAre("2:10: error: environment variable 'IDPROXY_TEST_LATIN1' is not UTF-8 text"));
}

TEST_F(Environment, TakesTheDefaultOfWhatIsNotDefinedOrEmpty) {
  ::setenv("IDPROXY_TEST_EMPTY", "", 1);
  struct Case {
    const char* written;
    const char* text;
  };
  constexpr Case kCases[] = {
      {"${IDPROXY_TEST_HOST:-other}", "db1.internal"},
      {"${IDPROXY_TEST_NOWHERE:-other}", "other"},
      {"${IDPROXY_TEST_EMPTY:-other}", "other"},
      {"${IDPROXY_TEST_EMPTY}", ""},
      {"'${IDPROXY_TEST_NOWHERE:-}'", ""},
      {"${IDPROXY_TEST_NOWHERE:-a:-b}", "a:-b"},
      {"${IDPROXY_TEST_NOWHERE:-$a{b}c}", "$a{bc}"},
      {"mongodb://${IDPROXY_TEST_NOWHERE:-h}:${IDPROXY_TEST_PORT:-1}/", "mongodb://h:27200/"},
  };
  for (const Case& each : kCases) {
    Findings findings;
    auto root = parse_tree(std::string("a: ") + each.written, findings);
    substitute_environment(*root, findings);
    EXPECT_EQ(root->children[0].text, each.text) << each.written;
    EXPECT_EQ(findings.errors(), 0U) << each.written;
  }
  EXPECT_EQ(
      load("listen:\n  port: ${IDPROXY_TEST_NOWHERE:-27300}\n").config.net.routes[0].listen.port,
      27300);
}

TEST_F(Environment, ReportsDefaultsThatCannotBeUsed) {
  EXPECT_THAT(findings_without_rules("log:\n  level: ${A:-${B}}\n  format: ${1:-x}\n"),
              ElementsAre("2:10: error: the default of 'A' must not contain another variable",
                          "3:11: error: '${' must begin the name of an environment variable, as in "
                          "${NAME} or ${NAME:-default}"));
  EXPECT_THAT(findings_without_rules("log:\n  level: ${IDPROXY_TEST_NOWHERE:-loud}\n"),
              ElementsAre(testing::HasSubstr("'${IDPROXY_TEST_NOWHERE:-loud}'")));
}

TEST_F(Environment, DoesNotLookIntoWhatAVariableHolds) {
  Mapping mapping("a: ${IDPROXY_TEST_NESTED}");
  EXPECT_EQ(mapping.reader.text("a", ""), "${IDPROXY_TEST_NESTED}") << "not yet replaced";
  Findings findings;
  auto root = parse_tree("a: ${IDPROXY_TEST_NESTED}!", findings);
  substitute_environment(*root, findings);
  EXPECT_EQ(root->children[0].text, "${IDPROXY_TEST_HOST}!");
  EXPECT_EQ(findings.errors(), 0U);
}

TEST_F(Environment, LeavesDollarsAndKeysAlone) {
  Findings findings;
  auto root = parse_tree("'${IDPROXY_TEST_HOST}': a$b$", findings);
  substitute_environment(*root, findings);
  EXPECT_EQ(root->children[0].key, "${IDPROXY_TEST_HOST}");
  EXPECT_EQ(root->children[0].text, "a$b$");
}

TEST_F(Environment, NeverShowsTheValue) {
  EXPECT_THAT(findings_without_rules("threads: ${IDPROXY_TEST_SECRET}\n"),
              ElementsAre("1:1: error: threads: must be auto or an integer 1 to 256, is text "
                          "'${IDPROXY_TEST_SECRET}' with its variable replaced"));
  for (const std::string text :
       {"listen: {address: '${IDPROXY_TEST_SECRET}', advertise: '${IDPROXY_TEST_SECRET} '}",
        "admin: {listen: '${IDPROXY_TEST_SECRET}'}", "id_store: {db: '${IDPROXY_TEST_SECRET}/'}",
        "upstream: {uri: '${IDPROXY_TEST_SECRET}'}",
        "id_store: {uri_file: '${IDPROXY_TEST_SECRET}'}",
        "rules: [{ns: '${IDPROXY_TEST_SECRET}', field: x, strategy: uuid}]",
        "rules: [{ns: a.b, field: x, strategy: '${IDPROXY_TEST_SECRET}'}]"}) {
    const auto found = findings_of(text);
    EXPECT_THAT(found, testing::Not(IsEmpty()));
    EXPECT_THAT(found, testing::Each(testing::Not(testing::HasSubstr("hunter2")))) << text;
  }
}

}  // namespace environment_test

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
