#include "idproxy/rewrite/rules.hpp"

#include <gtest/gtest.h>

#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace {

using namespace test;

std::string fields(const Plan& plan) {
  std::string names;
  for (const auto& assignment : plan) {
    names += std::to_string(assignment.rule_index) + ":" + assignment.rule->field + " ";
  }
  return names;
}

TEST(RuleSet, TakesTheFirstRuleOfEachField) {
  const auto rules = rule_set_of(rule("shop.orders", "_id"), rule("shop.*", "_id"),
                                 rule("shop.*", "number"), rule("*", "a.b"), rule("*", "a"));
  EXPECT_EQ(fields(rules->plan("shop", "orders")), "0:_id 2:number 3:a.b ");
  EXPECT_EQ(fields(rules->plan("shop", "carts")), "1:_id 2:number 3:a.b ");
  EXPECT_EQ(fields(rules->plan("shop", "a.dotted.name")), "1:_id 2:number 3:a.b ");
  EXPECT_EQ(fields(rules->plan("bank", "x")), "3:a.b ");
}

TEST(RuleSet, NeverTouchesWhatIsTheServersOrOurs) {
  const auto rules = rule_set_of(rule("*", "_id"));
  for (const auto& [db, collection] :
       std::initializer_list<std::pair<const char*, const char*>>{{"admin", "x"},
                                                                  {"local", "x"},
                                                                  {"config", "x"},
                                                                  {"idproxy", "counters"},
                                                                  {"shop", "system.users"},
                                                                  {"shop", "$cmd"},
                                                                  {"shop", ""},
                                                                  {"", "x"}}) {
    EXPECT_TRUE(rules->plan(db, collection).empty()) << db << "." << collection;
  }
  EXPECT_FALSE(rules->plan("shop", "systems").empty());
}

TEST(RuleSet, KnowsWhichCollectionsARuleCanReach) {
  const auto rules = rule_set_of(rule("shop.orders", "_id"), rule("b*.x?", "_id"));
  EXPECT_TRUE(rules->possible("orders"));
  EXPECT_TRUE(rules->possible("x1"));
  EXPECT_TRUE(rules->possible("any.x1"));
  EXPECT_FALSE(rules->possible("carts"));
}

TEST(Namespaces, TellsNamespacesApartThatReadTheSame) {
  for (const bool swapped : {false, true}) {
    Namespaces namespaces(rule_set_of(rule("*", "_id")));
    for (const bool second : {false, true}) {
      if (second == swapped) {
        EXPECT_EQ(namespaces.plan("config", "t.c"), nullptr);
      } else {
        EXPECT_NE(namespaces.plan("config.t", "c"), nullptr);
      }
    }
  }
}

TEST(Namespaces, RemembersABoundedNumberOfThem) {
  Namespaces namespaces(rule_set());
  for (int i = 0; i < 10'000; ++i) {
    const std::string collection = "c" + std::to_string(i);
    ASSERT_NE(namespaces.plan("shop", collection), nullptr);
    ASSERT_EQ(namespaces.plan("other", collection), nullptr);
    ASSERT_TRUE(namespaces.possible(collection));
  }
}

}  // namespace
}  // namespace idproxy::rewrite
