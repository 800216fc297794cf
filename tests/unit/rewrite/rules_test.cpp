#include "idproxy/rewrite/rules.hpp"

#include <gtest/gtest.h>

#include "support/fake_store.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace rules_test {

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

TEST(RuleSet, SumsTheOutcomesOfAllRules) {
  const auto rules = rule_set_of(rule("a.*", "_id"), rule("b.*", "_id"), rule("c.*", "_id"));
  rules->outcomes(0).cured += 2;
  rules->outcomes(2).cured += 3;
  rules->outcomes(1).resent += 7;
  EXPECT_EQ(rules->sum(&RuleOutcomes::cured), 5U);
  EXPECT_EQ(rules->sum(&RuleOutcomes::resent), 7U);
  EXPECT_EQ(rules->sum(&RuleOutcomes::given_up), 0U);
  EXPECT_EQ(rule_set_of()->sum(&RuleOutcomes::cured), 0U);
}

// ---- a reload --------------------------------------------------------------------------------

Rule from(std::string source, std::string ns = "shop.*") {
  Rule from = rule(std::move(ns), "_id");
  from.source = std::move(source);
  return from;
}
template <class... Rules>
RuleSet reloaded(const RuleSet& before, Rules&&... rules) {
  std::vector<Rule> all;
  (all.push_back(std::forward<Rules>(rules)), ...);
  return RuleSet(std::move(all), "idproxy", nullptr, &before);
}
/// Which rule of `before` a rule has its strategy and its outcomes from: "0", "1", … or "new".
std::string origin(const RuleSet& before, const RuleSet& after, std::size_t index) {
  const auto& strategy = after.rules()[index].strategy;
  for (std::size_t i = 0; i < before.rules().size(); ++i) {
    const bool same = before.rules()[i].strategy == strategy;
    EXPECT_EQ(same, &before.outcomes(i) == &after.outcomes(index));
    if (same) return std::to_string(i);
  }
  return "new";
}

TEST(RuleSet, TakesOverWhatAReloadDoesNotChange) {
  const auto before = rule_set_of(from("a"), from("b"), from(""), from("c"));
  const RuleSet after = reloaded(*before, from("c"), from("d"), from(""), from("a"));
  EXPECT_EQ(origin(*before, after, 0), "3");
  EXPECT_EQ(origin(*before, after, 1), "new");
  EXPECT_EQ(origin(*before, after, 2), "new");
  EXPECT_EQ(origin(*before, after, 3), "0");
}

TEST(RuleSet, TakesOverEachRuleOnce) {
  const auto before = rule_set_of(from("a"), from("a"));
  const RuleSet after = reloaded(*before, from("a"), from("a"), from("a"));
  EXPECT_EQ(origin(*before, after, 0), "0");
  EXPECT_EQ(origin(*before, after, 1), "1");
  EXPECT_EQ(origin(*before, after, 2), "new");
}

TEST(RuleSet, GoesOnWithTheValuesAndCountsOfTheOneBefore) {
  const auto draw = [](const RuleSet& rules, std::size_t n) {
    const Plan plan = rules.plan("shop", "orders");
    ids::Values values;
    EXPECT_TRUE(plan.front().source->next(n, values));
    plan.front().outcomes->assigned += n;
    return load_i64(values[n - 1].data());
  };
  const auto before = rule_set_of(from("a"));
  EXPECT_EQ(draw(*before, 3), 3);
  const RuleSet after = reloaded(*before, from("x", "other.*"), from("a"));
  EXPECT_EQ(draw(after, 2), 5);
  EXPECT_EQ(draw(*before, 1), 6);  // of an exchange that had begun
  EXPECT_EQ(after.outcomes(1).assigned.load(), 6U);
  EXPECT_EQ(after.plan("shop", "orders").front().rule_index, 1U);
}

/// Notes the stores that it is announced to and bound by.
class NotingStrategy final : public ids::RuleSource {
 public:
  NotingStrategy() : RuleSource({}) {}
  void announce(ids::Store& store) override { announced.push_back(&store); }
  Bound bind(std::string_view /*ns*/, ids::Store* store) override {
    bound.push_back(store);
    return {};
  }

  std::vector<ids::Store*> announced;
  std::vector<ids::Store*> bound;
};

TEST(RuleSet, AnnouncesWhatItTakesOverToItsOwnStore) {
  const auto strategy = std::make_shared<NotingStrategy>();
  const auto rules_with = [](std::shared_ptr<ids::RuleSource> given) {
    std::vector<Rule> all;
    all.push_back(from("a"));
    if (given) all.front().strategy = std::move(given);
    return all;
  };
  const auto first = std::make_shared<FakeStore>();
  const auto second = std::make_shared<FakeStore>();
  const RuleSet before(rules_with(strategy), "idproxy", first);
  const RuleSet after(rules_with(nullptr), "idproxy", second, &before);
  EXPECT_EQ(strategy->announced, (std::vector<ids::Store*>{first.get(), second.get()}));
  EXPECT_EQ(before.plan("shop", "orders").size(), 1U);
  EXPECT_EQ(after.plan("shop", "orders").size(), 1U);
  EXPECT_EQ(strategy->bound, (std::vector<ids::Store*>{first.get(), second.get()}));
  EXPECT_EQ(after.store(), second.get());
}

TEST(RuleSet, KeepsItsStore) {
  auto store = std::make_shared<FakeStore>();
  const std::weak_ptr<FakeStore> watched = store;
  std::optional<RuleSet> rules(std::in_place, std::vector<Rule>(), "idproxy", std::move(store));
  EXPECT_FALSE(watched.expired());
  rules.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Namespaces, GiveOutPlansThatOutliveThemAndTheirRules) {
  std::weak_ptr<const RuleSet> watched;
  std::shared_ptr<const Plan> plan;
  {
    auto rules = rule_set_of(rule("shop.*", "_id"));
    watched = rules;
    Namespaces namespaces(std::move(rules));
    plan = namespaces.plan("shop", "orders");
    namespaces = Namespaces(rule_set_of());
    EXPECT_EQ(namespaces.plan("shop", "orders"), nullptr);
  }
  EXPECT_EQ(plan->front().rule->field, "_id");
  ids::Values values;
  EXPECT_TRUE(plan->front().source->next(1, values));
  plan->front().outcomes->assigned += 1;
  plan.reset();
  EXPECT_TRUE(watched.expired());
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

TEST(Namespaces, KnowWhatAnInsertIntoATimeSeriesCollectionGoesPast) {
  const auto store = std::make_shared<FakeStore>();
  std::vector<Rule> all;
  all.push_back(rule("shop.*", "a"));
  all.push_back(rule("shop.o*", "a.b"));
  all.push_back(rule("shop.o*", "number"));
  Namespaces namespaces(std::make_shared<const RuleSet>(std::move(all), "idproxy", store));
  namespaces.admit("shop", "orders");
  EXPECT_TRUE(namespaces.bypassed("shop", "orders").empty());
  store->set({ids::Readiness::Kind::left_alone, {}});
  EXPECT_TRUE(namespaces.bypassed("shop", "orders").empty()) << "a view";
  store->set({ids::Readiness::Kind::left_alone, {}, true});
  EXPECT_EQ(namespaces.plan("shop", "orders"), nullptr);
  const auto past = namespaces.bypassed("shop", "orders");
  ASSERT_EQ(past.size(), 2U) << "the second rule is never used where the first one is";
  EXPECT_EQ(past[0].assignment->rule->field, "a");
  EXPECT_EQ(past[1].assignment->rule->field, "number");
  EXPECT_EQ(past[1].reason, ForwardReason::time_series);
  EXPECT_EQ(past[1].assignment->ns, "shop.orders");
  for (const auto& [db, collection] : {std::pair("shop", "system.buckets.orders"),
                                       std::pair("bank", "orders"), std::pair("idproxy", "o")}) {
    EXPECT_TRUE(namespaces.bypassed(db, collection).empty()) << db << collection;
  }
}

/// Until then, the store does not even learn the collection's name.
TEST(Namespaces, AskTheStoreOnceANamespaceIsAdmitted) {
  const auto store = std::make_shared<FakeStore>();
  store->set({ids::Readiness::Kind::not_ready, {ids::Errc::unavailable, "the reason"}});
  std::vector<Rule> all;
  all.push_back(rule("shop.*", "number"));
  Namespaces namespaces(std::make_shared<const RuleSet>(std::move(all), "idproxy", store));
  const auto outline = namespaces.plan("shop", "orders");
  ASSERT_NE(outline, nullptr);
  EXPECT_FALSE(outline->is_bound());
  EXPECT_EQ(outline->front().rule->field, "number");
  EXPECT_FALSE(outline->front().not_ready || outline->front().source);
  namespaces.admit("shop", "orders");
  const auto plan = namespaces.plan("shop", "orders");
  EXPECT_TRUE(plan->is_bound());
  EXPECT_TRUE(plan->front().not_ready && plan->front().source);
  EXPECT_FALSE(namespaces.plan("shop", "others")->is_bound());
  EXPECT_EQ(namespaces.plan("bank", "orders"), nullptr);
}

TEST(Namespaces, KeepThePlansOfThoseThatAreAdmitted) {
  std::vector<Rule> all;
  all.push_back(rule("shop.*", "number"));
  Namespaces namespaces(
      std::make_shared<const RuleSet>(std::move(all), "idproxy", std::make_shared<FakeStore>()));
  namespaces.admit("shop", "orders");
  const std::weak_ptr<const Plan> plan = namespaces.plan("shop", "orders");
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = std::to_string(i);
    if (i % 2 == 0) namespaces.admit("shop", name);
    ASSERT_EQ(namespaces.plan("shop", name)->is_bound(), i % 2 == 0);
  }
  EXPECT_EQ(namespaces.plan("shop", "orders"), plan.lock());
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

}  // namespace rules_test
}  // namespace idproxy::rewrite
