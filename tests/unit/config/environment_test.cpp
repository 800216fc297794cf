#include "config/environment.hpp"

#include <cstdlib>

#include "findings_of.hpp"

namespace idproxy::config {
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
                          "${NAME}"));
  EXPECT_THAT(findings_without_rules("log:\n  level: '${UNFINISHED'\n"),
              ElementsAre("2:10: error: '${' must begin the name of an environment variable, as in "
                          "${NAME}"));
  EXPECT_THAT(
      findings_without_rules("log:\n  level: ${IDPROXY_TEST_LATIN1}\n"),
      ElementsAre("2:10: error: environment variable 'IDPROXY_TEST_LATIN1' is not UTF-8 text"));
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
}  // namespace idproxy::config
