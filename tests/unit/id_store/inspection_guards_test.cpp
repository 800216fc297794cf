#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/id_store/inspection_fixture.hpp"

// What an Inspection tells writes through their guards.
namespace idproxy::id_store::test {
namespace inspection_guards_test {

using State = ids::GuardState::Kind;

constexpr ids::CollectionUuid kOne{1};
constexpr ids::CollectionUuid kOther{2};
const ServerAnswer kNoCollection{.kind = Kind::no_collection};

IndexList guarded_by(const ids::CollectionUuid& uuid) {
  IndexList response = indexes({unique({"number"})});
  response.uuid = uuid;
  return response;
}

class NobodyWaits final : public ids::Waiter {
  void answered(ids::Result<ids::Grant> /*grant*/) override {}
};

struct GuardsTest : InspectionTest {
  void watch(std::vector<WatchedRule> rules) {
    InspectionTest::watch(std::move(rules));
    known->tell(
        [this](const ids::Guard& who, ids::Guard::Need need) { known->need(who, need, now); });
  }
  void watch_orders(UniqueIndex demand) {
    watch({{"shop.orders", "number", demand}});
    guard = known->guard(0, "shop", "orders", now);
  }
  [[nodiscard]] State state() const { return guard->state(now).kind; }
  void look(const Answer& response) { (void)round({{"indexes shop.orders", response}}); }
  ListIndexes next_listing() {
    while (auto request = known->next(Asks::checks, now)) {
      if (const auto* listing = std::get_if<ListIndexes>(&*request)) return *listing;
      learn(*request, {});
    }
    ADD_FAILURE() << "nothing is due";
    return {};
  }
  [[nodiscard]] ids::Ticket wait() const { return guard->ask(0, std::make_unique<NobodyWaits>()); }

  std::shared_ptr<ids::Guard> guard;
};

TEST_F(GuardsTest, OnlyRulesThatDemandAnIndexHaveOne) {
  watch({{"shop.*", "a"},
         {"shop.*", "_id", UniqueIndex::require},
         {"shop.*", "b", UniqueIndex::require}});
  EXPECT_EQ(known->guard(0, "shop", "orders", now), nullptr);
  EXPECT_EQ(known->guard(1, "shop", "orders", now), nullptr);
  const auto one = known->guard(2, "shop", "orders", now);
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(known->guard(2, "shop", "orders", now), one);
}

TEST_F(GuardsTest, SayWhichCollectionIsGuarded) {
  watch_orders(UniqueIndex::require);
  EXPECT_EQ(state(), State::unknown);
  EXPECT_TRUE(next_listing().identifies);
  known->learn(ListIndexes{.ns = {"shop", "orders"}}, IndexList(), now);
  watch_orders(UniqueIndex::require);
  look(guarded_by(kOne));
  EXPECT_EQ(state(), State::guarded);
  EXPECT_EQ(guard->state(now).uuid, kOne);
  EXPECT_THAT(known->take_answers(), testing::Contains(guard));
}

TEST_F(GuardsTest, ALaterLookKeepsTheUuidAndAsksLess) {
  watch_orders(UniqueIndex::require);
  look(guarded_by(kOne));
  now += 60s;
  const ListIndexes request = next_listing();
  EXPECT_FALSE(request.identifies);
  learn(request, indexes({unique({"number"})}));
  EXPECT_EQ(guard->state(now).uuid, kOne);
}

TEST_F(GuardsTest, SayWhyThereAreNoValues) {
  watch_orders(UniqueIndex::require);
  look(kNoCollection);
  EXPECT_EQ(state(), State::unguarded);
  EXPECT_THAT(guard->state(now).error.reason, HasSubstr("no unique index guards the field"));
}

TEST_F(GuardsTest, AnIndexThatHasGoneIsNoticed) {
  watch_orders(UniqueIndex::require);
  look(guarded_by(kOne));
  now += 60s;
  look(indexes({}));
  EXPECT_EQ(state(), State::unguarded);
}

// --- The proxy's own index beside the application's ---

TEST_F(GuardsTest, ItsOwnIndexYieldsToTheApplicationsOnce) {
  watch_orders(UniqueIndex::create);
  look(guarded_by(kOne));
  EXPECT_EQ(known->due(Asks::indexes), Inspection::kNever);
  const auto both = indexes({own_index("number"), unique({"number"})});
  now += 10s;
  learn(next_listing(), both);
  const auto drop = known->next(Asks::indexes, now);
  ASSERT_TRUE(drop);
  EXPECT_EQ(text_of(*drop), "yield shop.orders number");
  now += 10s;
  learn(next_listing(), both);
  EXPECT_FALSE(known->next(Asks::indexes, now)) << "it is being dropped";
  EXPECT_EQ(state(), State::guarded);
  learn(*drop, DroppedIndex{{}, "i"});
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("guard_yields ")));
  now += 10s;
  learn(next_listing(), guarded_by(kOne));
  EXPECT_EQ(known->due(Asks::indexes), Inspection::kNever);
}

TEST_F(GuardsTest, AnIndexThatCannotBeDroppedIsLeftForAWhile) {
  watch_orders(UniqueIndex::create);
  const auto both = indexes({own_index("number"), unique({"number"})});
  const std::pair<Answer, std::chrono::seconds> kRows[] = {
      {{}, 10s},
      {ServerAnswer{.kind = Kind::refused}, 10s},
      {ServerAnswer{.kind = Kind::not_permitted}, 3600s}};
  for (const auto& [response, rest] : kRows) {
    learn(next_listing(), both);
    const auto drop = known->next(Asks::indexes, now);
    ASSERT_TRUE(drop);
    learn(*drop, response);
    now += 2s;
    known->begin_change({"shop", "orders"}, now);
    known->end_change({"shop", "orders"}, now);
    learn(next_listing(), both);
    EXPECT_EQ(known->due(Asks::indexes), now - 2s + rest);
    EXPECT_EQ(state(), State::guarded);
    now += rest;
  }
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("missing_privilege ")));
}

/// Though to drop one would have to wait for an hour.
TEST_F(GuardsTest, WhereBothIndexesHaveGoneOneIsMade) {
  watch_orders(UniqueIndex::create);
  const auto both = indexes({own_index("number"), unique({"number"})});
  learn(next_listing(), both);
  const auto drop = known->next(Asks::indexes, now);
  ASSERT_TRUE(drop);
  learn(*drop, ServerAnswer{.kind = Kind::not_permitted});
  now += 10s;
  learn(next_listing(), both);
  now += 10s;
  learn(next_listing(), indexes({}));
  const auto make = known->next(Asks::indexes, now);
  ASSERT_TRUE(make);
  EXPECT_EQ(text_of(*make), "make_index shop.orders number");
}

TEST_F(GuardsTest, OnlyWhatTheProxyMakesItDrops) {
  for (const UniqueIndex demand : {UniqueIndex::require, UniqueIndex::warn}) {
    watch_orders(demand);
    look(indexes({own_index("number"), unique({"number"})}));
    EXPECT_EQ(known->due(Asks::indexes), Inspection::kNever);
  }
}

// --- Collections that do not exist ---

TEST_F(GuardsTest, NoCollectionIsMadeBeforeAWriteNeedsIt) {
  watch_orders(UniqueIndex::create);
  look(kNoCollection);
  EXPECT_EQ(state(), State::unknown);
  EXPECT_TRUE(known->is_checked()) << "nobody has to wait for it";
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  now += 60s;
  look(kNoCollection);
  EXPECT_EQ(known->due(Asks::indexes), Inspection::kNever);
  EXPECT_THAT(log_events(), IsEmpty());
}

TEST_F(GuardsTest, AWriteHasTheIndexMadeAndThenWhichCollectionItIsIn) {
  watch_orders(UniqueIndex::create);
  look(kNoCollection);
  EXPECT_FALSE(known->next(Asks::awaited, now));
  const auto ticket = wait();
  EXPECT_FALSE(known->next(Asks::indexes, now)) << "it does not wait behind others";
  const auto make = known->next(Asks::awaited, now);
  ASSERT_TRUE(make);
  EXPECT_EQ(text_of(*make), "make_index shop.orders number");
  learn(*make, {});
  EXPECT_EQ(state(), State::unknown) << "it may be another collection by now";
  const ListIndexes request = next_listing();
  EXPECT_TRUE(request.identifies);
  learn(request, guarded_by(kOne));
  EXPECT_EQ(state(), State::guarded);
  EXPECT_EQ(guard->state(now).uuid, kOne);
}

TEST_F(GuardsTest, AWriteThatComesDuringTheLookHasTheIndexMade) {
  watch_orders(UniqueIndex::create);
  const auto ticket = wait();
  learn(next_listing(), kNoCollection);
  const auto make = known->next(Asks::awaited, now);
  ASSERT_TRUE(make);
  EXPECT_EQ(text_of(*make), "make_index shop.orders number");
}

TEST_F(GuardsTest, OneWriteGetsAllThatItWaitsForBeforeTheNextOne) {
  watch({{"shop.*", "number", UniqueIndex::create}});
  std::vector<ids::Ticket> tickets;
  for (const char* name : {"a", "b"}) {
    tickets.push_back(known->guard(0, "shop", name, now)->ask(0, std::make_unique<NobodyWaits>()));
  }
  const std::pair<const char*, Answer> kSteps[] = {{"indexes shop.a", kNoCollection},
                                                   {"make_index shop.a number", {}},
                                                   {"indexes shop.a", guarded_by(kOne)},
                                                   {"indexes shop.b", kNoCollection}};
  for (const auto& [expected, response] : kSteps) {
    const auto request = known->next(Asks::awaited, now);
    ASSERT_TRUE(request) << expected;
    EXPECT_EQ(text_of(*request), expected);
    learn(*request, response);
  }
}

TEST_F(GuardsTest, AFailureIsOfThatWriteAndTheNextOneTriesAgain) {
  watch_orders(UniqueIndex::create);
  look(kNoCollection);
  for (int i = 0; i < 2; ++i) {
    const auto ticket = wait();
    const auto make = known->next(Asks::awaited, now);
    ASSERT_TRUE(make);
    learn(*make, ServerAnswer{.kind = Kind::not_permitted});
    EXPECT_EQ(state(), State::unguarded);
    EXPECT_EQ(log_events().size(), i == 0 ? 2U : 0U) << "missing_privilege, not_ready";
    EXPECT_EQ(known->not_ready(1).size(), 1U);
    known->take_answers().front()->answer();
    now += 2s;
    look(kNoCollection);
    EXPECT_EQ(state(), State::unknown);
    EXPECT_EQ(known->not_ready(1).size(), 1U) << "for all that is known";
  }
}

TEST_F(GuardsTest, AWriteWaitsWhenTheCollectionComesUpAfterAnAttemptThatFailed) {
  watch_orders(UniqueIndex::create);
  look(kNoCollection);
  const auto ticket = wait();
  learn(*known->next(Asks::awaited, now), ServerAnswer{.kind = Kind::not_permitted});
  known->take_answers().front()->answer();
  now += 2s;
  look(kNoCollection);
  now += 2s;
  known->learn(next_listing(), indexes({}), now);
  EXPECT_EQ(state(), State::unknown);
}

TEST_F(GuardsTest, AnAttemptThatFailsAgainForAWhileAnswersTheWrite) {
  watch_orders(UniqueIndex::create);
  look(kNoCollection);
  for (const Kind kind : {Kind::not_permitted, Kind::unreachable}) {
    const auto ticket = wait();
    learn(*known->next(Asks::awaited, now), ServerAnswer{.kind = kind});
    EXPECT_EQ(state(), State::unguarded);
    known->take_answers().front()->answer();
    now += 2s;
    look(kNoCollection);
  }
}

TEST_F(GuardsTest, AListThatIsRefusedForGoodAnswersTheWrite) {
  watch_orders(UniqueIndex::create);
  const auto ticket = wait();
  known->learn(next_listing(), IndexList{kNoCollection}, now);
  EXPECT_EQ(state(), State::unknown);
  now += 2s;
  const ListIndexes request{.ns = {"shop", "orders"}};
  known->learn(request, IndexList{{.kind = Kind::refused, .reason = "no"}}, now);
  EXPECT_EQ(state(), State::unguarded);
}

TEST_F(GuardsTest, TheIndexIsMadeOnceTheCollectionIsThere) {
  watch_orders(UniqueIndex::create);
  look(kNoCollection);
  now += 60s;
  learn(next_listing(), indexes({}));
  EXPECT_TRUE(known->next(Asks::indexes, now));
  EXPECT_EQ(state(), State::unknown);
}

TEST_F(GuardsTest, AnIndexThatAnotherProxyBuildsIsLookedAtSoonWhileAWriteWaits) {
  watch_orders(UniqueIndex::create);
  const auto ticket = wait();
  Index building = unique({"number"});
  building.building = true;
  learn(next_listing(), indexes({building}));
  (void)round({{"indexes shop.orders", indexes({building})}});  // what else there is
  EXPECT_EQ(known->due(Asks::checks), now + CollectionWatch::kAwaitedRound);
  EXPECT_THAT(log_events(), IsEmpty()) << "it takes no time";
  for (int i = 0; i < 2; ++i) {
    now += 2s;
    learn(next_listing(), indexes({building}));
  }
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("not_ready ")));
}

// --- Changes ---

TEST_F(GuardsTest, NothingIsBelievedDuringAChangeAndAllIsLookedAtAfterIt) {
  watch_orders(UniqueIndex::require);
  look(guarded_by(kOne));
  known->begin_change({"shop", "orders"}, now);
  EXPECT_EQ(state(), State::unknown);
  EXPECT_THAT(round(), IsEmpty()) << "the command may not have been carried out yet";
  known->end_change({"shop", "orders"}, now);
  EXPECT_EQ(state(), State::unknown);
  const ListIndexes request = next_listing();
  EXPECT_TRUE(request.identifies);
  learn(request, guarded_by(kOther));
  EXPECT_EQ(guard->state(now).uuid, kOther);
}

TEST_F(GuardsTest, WhatWasSeenBeforeAChangeIsVoid) {
  watch_orders(UniqueIndex::require);
  const ListIndexes before = next_listing();
  known->begin_change({"shop", "orders"}, now);
  known->end_change({"shop", "orders"}, now);
  learn(before, guarded_by(kOne));
  EXPECT_EQ(state(), State::unknown);
  learn(next_listing(), guarded_by(kOther));
  EXPECT_EQ(state(), State::guarded);
}

TEST_F(GuardsTest, AChangeIsOfACollectionADatabaseOrAll) {
  const ids::CatalogChange changes[] = {{"shop", "orders"}, {"shop", ""}, {"", ""}};
  for (const ids::CatalogChange& change : changes) {
    watch_orders(UniqueIndex::require);
    look(guarded_by(kOne));
    known->begin_change({"shop", "other"}, now);
    known->begin_change({"other", ""}, now);
    EXPECT_EQ(state(), State::guarded);
    known->begin_change(change, now);
    EXPECT_EQ(state(), State::unknown);
  }
}

TEST_F(GuardsTest, ACollectionThatComesUpDuringAChangeIsLookedAtAfterIt) {
  watch({{"shop.*", "number", UniqueIndex::require}});
  (void)round();
  known->begin_change({"shop", ""}, now);
  guard = known->guard(0, "shop", "orders", now);
  EXPECT_THAT(round(), IsEmpty());
  known->end_change({"shop", ""}, now);
  look(guarded_by(kOne));
  EXPECT_EQ(state(), State::guarded);
}

TEST_F(GuardsTest, AWriteSaysThatTheCollectionHasGone) {
  watch_orders(UniqueIndex::require);
  look(guarded_by(kOne));
  guard->gone(kOne);
  EXPECT_TRUE(next_listing().identifies);
}

TEST_F(GuardsTest, AViewTellsItsWritesThatNoRuleApplies) {
  watch_orders(UniqueIndex::require);
  const auto version = known->version();
  IndexList view;
  view.left_alone = LeftAlone::view;
  learn(next_listing(), view);
  EXPECT_EQ(state(), State::left_alone);
  EXPECT_GT(known->version(), version) << "plans are made anew";
  now += 60s;
  (void)round({{"left_alone shop", views({})}, {"indexes shop.orders", guarded_by(kOne)}});
  EXPECT_EQ(state(), State::guarded);
}

TEST_F(GuardsTest, ATimeSeriesCollectionIsToldFromAView) {
  const auto is_time_series = [&] {
    const ids::Readiness readiness = known->readiness(0, "shop", "orders", now);
    EXPECT_EQ(readiness.kind, ids::Readiness::Kind::left_alone);
    return readiness.is_time_series;
  };
  watch_orders(UniqueIndex::require);
  IndexList response;
  response.left_alone = LeftAlone::time_series;
  learn(next_listing(), response);
  EXPECT_TRUE(is_time_series());
  const auto version = known->version();
  now += 60s;
  (void)round({{"left_alone shop", views({"orders"})}});
  EXPECT_FALSE(is_time_series()) << "another one of the same name";
  EXPECT_GT(known->version(), version);
}

// --- What exists at the start ---

TEST_F(GuardsTest, CollectionsThatExistAreLookedAtFromTheStart) {
  watch({{"tenant*.orders", "number", UniqueIndex::require}, {"shop.*", "n", UniqueIndex::create}});
  const DatabaseList databases{{}, {"tenant1", "tenant2", "other"}};
  const CollectionList names = ordinary({"orders", "carts"});
  EXPECT_THAT(
      round({{"databases", databases}, {"left_alone tenant1", names}, {"left_alone shop", names}}),
      testing::IsSupersetOf({"databases", "left_alone tenant2", "indexes tenant1.orders",
                             "indexes shop.orders", "indexes shop.carts"}));
  EXPECT_FALSE(known->next(Asks::checks, now));
}

TEST_F(GuardsTest, OfACollectionThatNobodyHasAskedAboutNothingIsSaidOrMade) {
  watch({{"shop.*", "number", UniqueIndex::create}});
  const CollectionList names = ordinary({"carts"});
  EXPECT_THAT(round({{"left_alone shop", names}}),
              ElementsAre("left_alone shop", "indexes shop.carts"));
  EXPECT_THAT(log_events(), IsEmpty());
  EXPECT_THAT(known->not_ready(10), IsEmpty());
  EXPECT_EQ(known->due(Asks::indexes), Inspection::kNever);
  guard = known->guard(0, "shop", "carts", now);
  EXPECT_THAT(round({{"indexes shop.carts", indexes({unique({"number"})})}}),
              ElementsAre("indexes shop.carts"));
  EXPECT_EQ(state(), State::guarded);
}

TEST_F(GuardsTest, AnIndexThatHasGoneBeforeAnybodyAskedIsNotBelieved) {
  watch({{"shop.*", "number", UniqueIndex::require}});
  const CollectionList names = ordinary({"carts"});
  (void)round({{"left_alone shop", names}, {"indexes shop.carts", guarded_by(kOne)}});
  now += 60s;
  (void)round({{"indexes shop.carts", indexes({})}});
  guard = known->guard(0, "shop", "carts", now);
  EXPECT_EQ(state(), State::unknown);
}

TEST_F(GuardsTest, WhatAWriteWaitsForComesFirst) {
  watch({{"shop.*", "number", UniqueIndex::require}});
  for (int i = 0; i < 10; ++i) {
    (void)known->guard(0, "shop", "c" + std::to_string(i), now);
  }
  guard = known->guard(0, "shop", "z", now);
  const auto ticket = wait();
  EXPECT_EQ(text_of(*known->next(Asks::checks, now)), "indexes shop.z");
}

TEST_F(GuardsTest, AReloadKeepsWhatIsKnownInGuardsOfItsOwn) {
  watch_orders(UniqueIndex::require);
  look(guarded_by(kOne));
  Inspection next({{"shop.orders", "number", UniqueIndex::require}, {"a.b", "_id"}}, now, &*known);
  known.emplace(std::move(next));
  const auto taken = known->guard(0, "shop", "orders", now);
  EXPECT_NE(taken, guard);
  EXPECT_EQ(taken->state(now).kind, State::guarded);
  EXPECT_EQ(taken->state(now).uuid, kOne);
}

}  // namespace inspection_guards_test
}  // namespace idproxy::id_store::test
