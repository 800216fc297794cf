#include "config/tree.hpp"

#include "findings_of.hpp"

namespace idproxy::config {
namespace tree_test {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> faults_of(const std::string& text) {
  Findings findings;
  (void)parse_tree(text, findings);
  return texts_of(std::move(findings).in_file_order());
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
    EXPECT_EQ(parsed, findings.errors() == 0) << "cut at " << end;
  }
}

}  // namespace tree_test
}  // namespace idproxy::config
