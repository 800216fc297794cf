#include "app/serve/reload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace idproxy::app::serve {
namespace reload_test {

using testing::EndsWith;
using testing::StartsWith;
using Rules = std::vector<rewrite::Rule>;

rewrite::Rule rule(const std::string& ns, std::map<std::string, std::string> keys = {}) {
  rewrite::Rule made;
  made.ns = ns;
  made.field = "n";
  made.definition = std::move(keys);
  return made;
}

TEST(RuleChanges, AreNoneIfNothingDiffers) {
  EXPECT_EQ(rule_changes({}, {}), "");
  const Rules same{rule("a.b", {{"start", "1"}}), rule("a.b"), rule("a.c")};
  EXPECT_EQ(rule_changes(same, same), "");
}

TEST(RuleChanges, NameRulesAndKeysButNoValues) {
  const Rules before{rule("a.b", {{"start", "1"}, {"store.key", "\"secret\""}, {"max", "5"}}),
                     rule("a.gone"), rule("a.same")};
  const Rules after{rule("a.b", {{"max", "6"}, {"start", "1"}, {"block.size", "7"}}),
                    rule("a.same"), rule("a.new")};
  EXPECT_EQ(rule_changes(before, after),
            "changed a.b.n (block.size, max, store.key); added a.new.n; removed a.gone.n");
}

TEST(RuleChanges, SayThatTheOrderIsAnother) {
  const Rules before{rule("a.b"), rule("a.*"), rule("a.b", {{"x", "1"}})};
  EXPECT_EQ(rule_changes(before, {before[1], before[0], before[2]}), "order");
  EXPECT_EQ(rule_changes(before, {before[1], before[0]}), "removed a.b.n; order");
  EXPECT_EQ(rule_changes(before, {before[2], before[1], before[0]}),
            "changed a.b.n (x), a.b.n (x)");
}

TEST(RuleChanges, AreBounded) {
  Rules many;
  std::map<std::string, std::string> keys;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(rule("db.c" + std::to_string(i)));
    keys["key" + std::to_string(1000 + i)] = "1";
  }
  EXPECT_THAT(rule_changes({}, many), StartsWith("added db.c0.n, db.c1.n, "));
  EXPECT_THAT(rule_changes({}, many), EndsWith(", db.c19.n and 980 more"));
  EXPECT_EQ(rule_changes({rule("a.b")}, {rule("a.b", keys)}),
            "changed a.b.n (key1000, key1001, key1002, key1003, key1004, key1005, key1006, key1007 "
            "and 992 more)");
  const std::string is_long(3000, 'x');
  EXPECT_EQ(rule_changes({}, {rule(is_long)}), "added 1");
}

}  // namespace reload_test
}  // namespace idproxy::app::serve
