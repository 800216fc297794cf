#include "app/jobs/backfill_rule.hpp"

#include <gtest/gtest.h>

#include "support/fake_clock.hpp"
#include "support/rule_set.hpp"
#include "support/scripted_random.hpp"
#include "support/strategies.hpp"

namespace idproxy::app::jobs {
namespace backfill_rule_test {

BackfillRequest request(std::string ns, std::string field, std::string sort = "_id") {
  return {{"f.yaml", std::move(ns), std::move(field)}, std::move(sort)};
}

TEST(BackfillRequestTest, FaultsAreNamed) {
  const struct {
    BackfillRequest request;
    const char* fault;  // its beginning
  } rows[] = {
      {request("shop.orders", "_id"), "--field must not be _id"},
      {request("shop.orders", "_id.x"), "--field must not be _id"},
      {request("shop.orders", "n", ""), "--sort must be a field"},
      {request("shop.orders", "n", "-"), "--sort must be a field"},
      {request("shop.orders", "n", "$natural"), "--sort must be a field"},
  };
  for (const auto& [asked, fault] : rows) {
    EXPECT_TRUE(fault_of(asked).starts_with(fault)) << asked.ns << ' ' << asked.sort;
  }
  EXPECT_EQ(fault_of(request("shop.a.b", "n", "-created")), "");
  EXPECT_EQ(order_of(request("", "", "-created")).field, "created");
  EXPECT_EQ(order_of(request("", "", "-created")).direction, -1);
  EXPECT_EQ(order_of(request("", "", "created")).direction, 1);
}

TEST(BackfillRequestTest, FindsTheFirstRuleOfTheField) {
  std::vector<rewrite::Rule> rules;
  for (const auto& [ns, field] : {std::pair("bank.*", "n"), std::pair("shop.*", "m"),
                                  std::pair("shop.*", "n"), std::pair("shop.orders", "n")}) {
    rules.push_back(test::rule(ns, field));
  }
  EXPECT_EQ(*find_rule("f.yaml", "shop.orders", "n", rules), 2U);
  EXPECT_EQ(find_rule("f.yaml", "shop.orders", "x", rules).error(),
            "no rule of f.yaml fills x in shop.orders; its rules fill m, n, n");
  EXPECT_EQ(find_rule("f.yaml", "crm.orders", "n", rules).error(),
            "no rule of f.yaml fills n in crm.orders");
}

TEST(BackfillRequestTest, RefusesARuleWithReservations) {
  rewrite::Rule rule = test::rule("shop.orders", "n");
  rule.reserve.emplace();
  EXPECT_EQ(fault_for(request("shop.orders", "n"), rule),
            "the rule for n in shop.orders has a `reserve`, and a backfill reserves nothing: its "
            "values could be given out again");
}

TEST(BackfillRequestTest, RefusesANumberThatNobodyLeases) {
  const test::FakeClock clock;
  test::SeededRandom random;
  const auto refuses = [&](const char* lease) {
    rewrite::Rule rule = test::rule("shop.orders", "n");
    rule.strategy = test::make_strategy(
        "snowflake", {{"machine.lease", lease}, {"machine.id", "5"}, {"preset", "twitter"}},
        {clock, random});
    return fault_for(request("shop.orders", "n"), rule);
  };
  EXPECT_EQ(
      refuses("none"),
      "the rule for n in shop.orders has `machine.lease: none`, and a backfill would make the "
      "ids that a running proxy makes with the same number: run it with a copy of the "
      "configuration in which `machine` has a `lease` of its own, such as backfill, and an "
      "`id` that no proxy has");
  EXPECT_EQ(refuses("backfill"), "");
}

TEST(BackfillRequestTest, NullIsAValueOnlyToRulesThatLeaveItAlone) {
  using rewrite::Assign;
  const auto target = [](Assign assign) {
    const rewrite::Rule rule = test::rule("shop.*", "n", assign);
    rewrite::Assignment assignment{};
    assignment.rule = &rule;
    return target_of(request("shop.a.b", "n"), assignment);
  };
  const auto filter = [&](Assign assign) {
    return std::string(as_text(without_value(target(assign)).bytes()));
  };
  const std::string null_is_none = filter(Assign::missing_or_null);
  EXPECT_NE(filter(Assign::missing), null_is_none);
  EXPECT_NE(filter(Assign::missing_or_zero), null_is_none);
  EXPECT_EQ(filter(Assign::driver), null_is_none);
  EXPECT_EQ(target(Assign::always).assign, Assign::missing_or_null);
  EXPECT_EQ(target(Assign::missing).ns.collection, "a.b");
}

}  // namespace backfill_rule_test
}  // namespace idproxy::app::jobs
