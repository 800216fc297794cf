#include "idproxy/rewrite/insert.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace plan_fields_test {

using namespace test;

std::shared_ptr<const Plan> plan_of(Namespaces& namespaces, int i) {
  return namespaces.plan("shop", "orders" + std::to_string(i));
}

TEST(RecentPlans, KnowsAPlanAgain) {
  Namespaces namespaces(rule_set());
  RecentPlans recent;
  std::vector<PlanFields*> fields;
  for (int i = 0; i < 16; ++i) fields.push_back(&recent.of(plan_of(namespaces, i)));
  for (int i = 15; i >= 0; --i) {
    EXPECT_EQ(&recent.of(plan_of(namespaces, i)), fields[static_cast<std::size_t>(i)]);
  }
}

TEST(RecentPlans, ForgetsThePlanThatWasUsedLongestAgo) {
  Namespaces namespaces(rule_set());
  RecentPlans recent;
  constexpr std::uint32_t kMarked = 12345;
  for (int i = 0; i < 17; ++i) recent.of(plan_of(namespaces, i)).front = kMarked;
  EXPECT_EQ(recent.of(plan_of(namespaces, 1)).front, kMarked);
  EXPECT_NE(recent.of(plan_of(namespaces, 0)).front, kMarked) << "made anew";
  EXPECT_EQ(recent.of(plan_of(namespaces, 1)).front, kMarked);
  EXPECT_NE(recent.of(plan_of(namespaces, 2)).front, kMarked);
}

TEST(RecentPlans, KeepNoPlanAliveAndTakeNoNewOneForIt) {
  RecentPlans recent;
  std::weak_ptr<const RuleSet> rules;
  for (int i = 0; i < 3; ++i) {  // a new plan would have the memory of the old one
    const Assign assign = i == 1 ? Assign::always : Assign::missing;
    Namespaces namespaces(rule_set_of(rule("shop.*", i == 2 ? "a.b" : "number", assign)));
    EXPECT_TRUE(rules.expired());
    rules = namespaces.rules();
    const PlanFields& fields = recent.of(namespaces.plan("shop", "orders"));
    EXPECT_EQ(fields.stays, i == 0 ? 1U : 0U);
    EXPECT_EQ(fields.second_names.has_value(), i == 2);
  }
}

}  // namespace plan_fields_test
}  // namespace idproxy::rewrite
