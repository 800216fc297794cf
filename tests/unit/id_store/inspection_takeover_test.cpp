#include "id_store/inspection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/id_store/inspection_fixture.hpp"

// What is known after a reload.
namespace idproxy::id_store::test {
namespace inspection_takeover_test {

struct TakeoverTest : InspectionTest {
  /// As a reload does.
  void reload(std::vector<WatchedRule> rules) {
    Inspection next(std::move(rules), now, &*known);
    known.emplace(std::move(next));
  }
  bool is_ready(std::string_view db, std::string_view name, std::size_t rule = 0) {
    return readiness(db, name, rule).kind == Readiness::Kind::ready;
  }
};

const std::map<std::string, Answer> kGuarded{
    {"indexes shop.orders", indexes({unique({"number"})})},
    {"indexes shop.bills", indexes({unique({"number"})})},
};

TEST_F(TakeoverTest, WhatWasReadyStaysReadyAndIsNotAskedAbout) {
  watch({{"shop.*", "number", UniqueIndex::require}});
  (void)readiness("shop", "orders");
  EXPECT_EQ(round(kGuarded).size(), 2U);
  now += 1s;
  reload({{"shop.x", "_id"}, {"shop.orders", "number", UniqueIndex::require}});
  EXPECT_TRUE(is_ready("shop", "orders", 1));
  EXPECT_THAT(round(), ElementsAre("indexes shop.x"));
  EXPECT_TRUE(known->is_checked());
  now += 60s;
  EXPECT_THAT(round(kGuarded),
              ElementsAre("left_alone shop", "indexes shop.orders", "indexes shop.x"));
}

TEST_F(TakeoverTest, ARuleThatIsNewInAKnownCollectionBelongsToTheFirstLook) {
  watch({{"shop.*", "number", UniqueIndex::require}});
  (void)readiness("shop", "orders");
  EXPECT_EQ(round(kGuarded).size(), 2U);
  reload({{"shop.*", "number", UniqueIndex::require}, {"shop.*", "code", UniqueIndex::require}});
  EXPECT_TRUE(is_ready("shop", "orders"));
  EXPECT_FALSE(known->is_checked());
  EXPECT_THAT(round({{"indexes shop.orders", indexes({unique({"number"}), unique({"code"})})}}),
              ElementsAre("indexes shop.orders"));
  EXPECT_TRUE(known->is_checked());
  EXPECT_TRUE(is_ready("shop", "orders", 1));
}

TEST_F(TakeoverTest, AReloadForgetsNoneOfMany) {
  constexpr std::size_t kMany = kMostUnused + 10;
  watch({{"*", "number", UniqueIndex::require}});
  std::vector<std::shared_ptr<ids::Guard>> used;
  for (std::size_t i = 0; i < kMany; ++i) {
    used.push_back(known->guard(0, "a", std::to_string(i), now));
  }
  const std::map<std::string, Answer> found{{"indexes a.0", indexes({unique({"number"})})}};
  EXPECT_EQ(round(found).size(), kMany + 1);
  reload({{"*", "number", UniqueIndex::require}, {"*", "other"}});
  (void)known->take_answers();  // for which it holds the guards
  (void)readiness("a", "new");
  EXPECT_TRUE(is_ready("a", "0"));
}

TEST_F(TakeoverTest, AnotherDemandIsLookedAt) {
  watch({{"shop.orders", "number"}});
  EXPECT_EQ(round(kGuarded).size(), 2U);
  reload({{"shop.orders", "number", UniqueIndex::require}});
  EXPECT_FALSE(is_ready("shop", "orders"));
  EXPECT_THAT(round(kGuarded), ElementsAre("indexes shop.orders"));
  EXPECT_TRUE(is_ready("shop", "orders"));
}

TEST_F(TakeoverTest, AnotherTypeOfValuesIsLookedAt) {
  Index strings = unique({"number"});
  strings.partial = {Index::Partial::Kind::types, "number",
                     1U << static_cast<unsigned>(bson::Type::string)};
  const std::map<std::string, Answer> answers{{"indexes shop.orders", indexes({strings})}};
  WatchedRule rule{"shop.orders", "number", UniqueIndex::require};
  rule.value_type = bson::Type::string;
  watch({rule});
  EXPECT_EQ(round(answers).size(), 2U);
  EXPECT_TRUE(is_ready("shop", "orders"));
  rule.value_type = bson::Type::int64;
  reload({rule});
  EXPECT_EQ(round(answers).size(), 1U);
  EXPECT_FALSE(is_ready("shop", "orders"));
}

TEST_F(TakeoverTest, WhatNoRuleTouchesAnyMoreIsForgotten) {
  watch({{"shop.orders", "number", UniqueIndex::require}, {"bank.*", "number"}});
  (void)readiness("bank", "accounts", 1);
  EXPECT_EQ(round().size(), 4U);
  EXPECT_EQ(known->not_ready(9).size(), 1U);
  reload({{"bank.*", "number"}});
  EXPECT_THAT(known->not_ready(9), IsEmpty());
  now += 60s;
  EXPECT_THAT(round(), ElementsAre("left_alone bank", "indexes bank.accounts"));
}

TEST_F(TakeoverTest, WhatCouldNotBeCheckedIsAskedOfTheNewOne) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  EXPECT_EQ(round({{"left_alone shop", kUnreachable}}).size(), 1U);
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("inspection_failing "), HasSubstr("not_ready ")));
  reload({{"shop.orders", "number", UniqueIndex::require}, {"shop.bills", "number"}});
  EXPECT_TRUE(known->is_checked());  // nobody answers now
  EXPECT_THAT(readiness("shop", "orders").error.reason, HasSubstr("does not answer"));
  now += 1s;
  EXPECT_EQ(round(kGuarded).size(), 3U);
  EXPECT_TRUE(is_ready("shop", "orders"));
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("inspection_again "), HasSubstr("ready_again ")));
}

TEST_F(TakeoverTest, WhyNothingCanBeCheckedIsToldOfNewRulesToo) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  ServerAnswer refused = kUnreachable;
  refused.told = "the id store refuses the proxy's login";
  EXPECT_EQ(round({{"left_alone shop", refused}}).size(), 1U);
  reload({{"shop.bills", "number", UniqueIndex::require}});
  EXPECT_THAT(readiness("shop", "bills").error.reason, HasSubstr(refused.told));
}

TEST_F(TakeoverTest, ViewsStayViews) {
  watch({{"shop.*", "_id"}});
  (void)readiness("shop", "orders");
  EXPECT_EQ(round({{"left_alone shop", views({"v"})}}).size(), 2U);
  reload({{"*", "_id"}, {"shop.*", "number"}});
  EXPECT_EQ(readiness("shop", "v").kind, Readiness::Kind::left_alone);
  EXPECT_THAT(round(), ElementsAre("indexes shop.orders"));
  EXPECT_TRUE(known->is_checked());
}

TEST_F(TakeoverTest, AnAnswerUnderWayIsTheNewOnesToo) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  const auto database = known->next(Asks::checks, now);
  const auto out = known->next(Asks::checks, now);
  ASSERT_TRUE(database);
  ASSERT_TRUE(out);
  reload({{"shop.orders", "number", UniqueIndex::require}, {"a.b", "_id"}});
  EXPECT_FALSE(known->is_checked());
  learn(*database, {});
  learn(*out, indexes({unique({"number"})}));
  EXPECT_TRUE(is_ready("shop", "orders"));
  EXPECT_THAT(round(), ElementsAre("left_alone a", "indexes a.b"));
}

/// For writes, which would go unnoticed into a collection that has taken its place.
TEST_F(TakeoverTest, AnAnswerThatDoesNotSayWhichCollectionItIsGuardsNothing) {
  watch({{"shop.orders", "number"}});
  (void)known->next(Asks::checks, now);
  const auto out = known->next(Asks::checks, now);
  ASSERT_TRUE(out);
  ASSERT_FALSE(std::get<ListIndexes>(*out).identifies);
  reload({{"shop.orders", "number", UniqueIndex::require}});
  const auto guard = known->guard(0, "shop", "orders", now);
  learn(*out, indexes({unique({"number"})}));
  EXPECT_EQ(guard->state(now).kind, ids::GuardState::Kind::unknown);
  (void)round(kGuarded);
  EXPECT_EQ(guard->state(now).kind, ids::GuardState::Kind::guarded);
}

TEST_F(TakeoverTest, CollectionsOfANewRuleAreListedThoughAListIsOut) {
  watch({{"shop.*", "_id"}});
  const auto out = known->next(Asks::checks, now);
  ASSERT_TRUE(out);
  reload({{"shop.*", "number", UniqueIndex::require}});
  const auto again = known->next(Asks::checks, now);
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::get<ListCollections>(*again).lists_all);
}

TEST_F(TakeoverTest, AnIndexThatIsBeingMadeIsNotMadeTwice) {
  watch({{"shop.orders", "number", UniqueIndex::create}});
  while (const auto request = known->next(Asks::checks, now)) learn(*request, {});
  const auto out = known->next(Asks::indexes, now);
  ASSERT_TRUE(out);
  reload({{"shop.*", "number", UniqueIndex::create}});
  EXPECT_FALSE(known->next(Asks::indexes, now));
  now += 60s;
  Index building = unique({"number"});
  building.building = true;
  EXPECT_EQ(round({{"indexes shop.orders", indexes({building})}}).size(), 2U);
  EXPECT_FALSE(is_ready("shop", "orders"));
  learn(*out, {});
  EXPECT_THAT(round(kGuarded), ElementsAre("indexes shop.orders"));
  EXPECT_TRUE(is_ready("shop", "orders"));
}

class Waits final : public ids::Waiter {
 public:
  explicit Waits(bool& is_answered) : is_answered_(is_answered) {}
  void answered(ids::Result<ids::Grant> grant) override { is_answered_ = grant.has_value(); }

 private:
  bool& is_answered_;
};

TEST_F(TakeoverTest, AWriteThatWaitsAtAGuardThatIsReplacedIsAnswered) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  const auto replaced = known->guard(0, "shop", "orders", now);
  bool is_answered = false;
  const auto ticket = replaced->ask(0, std::make_unique<Waits>(is_answered));
  Inspection next({{"a.b", "_id"}, {"shop.orders", "number", UniqueIndex::require}}, now, &*known);
  const auto guard = next.guard(1, "shop", "orders", now);
  ASSERT_NE(guard, replaced);
  // The answer goes to both.
  const ListIndexes request{.ns = {"shop", "orders"}, .identifies = true, .at = now};
  for (Inspection* each : {&next, &*known}) {
    each->learn(request, indexes({unique({"number"})}), now);
    for (const auto& answered : each->take_answers()) answered->answer();
  }
  EXPECT_EQ(guard->state(now).kind, ids::GuardState::Kind::guarded);
  EXPECT_TRUE(is_answered);
}

TEST_F(TakeoverTest, TheLogIsNotToldTwice) {
  watch({{"shop.orders", "number"}});
  const std::map<std::string, Answer> answers{
      {"left_alone shop", ServerAnswer{.kind = Kind::not_permitted}},
      {"indexes shop.orders", indexes({})},
  };
  EXPECT_EQ(round(answers).size(), 2U);
  EXPECT_EQ(log_events().size(), 2U);
  reload({{"shop.orders", "number"}, {"shop.x", "_id"}});
  now += 60s;
  EXPECT_EQ(round(answers).size(), 3U);
  EXPECT_THAT(log_events(), IsEmpty());
}

TEST_F(TakeoverTest, WhatWasNotToldYetIsToldByTheNewOne) {
  watch({{"shop.orders", "number"}});
  EXPECT_EQ(round({{"indexes shop.orders", indexes({})}}).size(), 2U);
  reload({{"shop.orders", "number"}, {"shop.x", "_id"}});
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("no_unique_index ")));
}

// --- Random numbers ---

WatchedRule random_numbers(const char* ns, const char* space) {
  return {ns, "n", UniqueIndex::warn, true, space};
}

TEST_F(TakeoverTest, TheFillOfASpaceGoesOn) {
  watch({random_numbers("a.*", "12 digits")});
  const auto fill = known->space("a.b", "n", now).fill;
  (void)readiness("a", "b");
  EXPECT_EQ(round({{"documents a.b", documents(7)}}).size(), 3U);
  reload({random_numbers("a.b", "12 digits"), {"a.x", "_id"}});
  EXPECT_EQ(known->space("a.b", "n", now).fill, fill);
  EXPECT_THAT(round(), ElementsAre("indexes a.x"));
}

TEST_F(TakeoverTest, OfAnotherSpaceOnlyTheDocumentsAreKnown) {
  watch({random_numbers("a.b", "3 digits")});
  const auto fill = known->space("a.b", "n", now).fill;
  fill->limit({1000, 0.1, 0.9});
  EXPECT_EQ(round({{"documents a.b", documents(950)}}).size(), 3U);
  EXPECT_FALSE(fill->draw(1));
  EXPECT_EQ(known->not_ready(9).size(), 1U);
  reload({random_numbers("a.b", "6 digits")});
  const auto next = known->space("a.b", "n", now).fill;
  EXPECT_NE(next, fill);
  next->limit({1'000'000, 0.1, 0.9});
  EXPECT_EQ(next->seen().documents, 950U);
  EXPECT_TRUE(next->draw(1));
  EXPECT_THAT(known->not_ready(9), IsEmpty());
}

}  // namespace inspection_takeover_test
}  // namespace idproxy::id_store::test
