#include "id_store/collection_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/id_store/inspection_fixture.hpp"

namespace idproxy::id_store::test {
namespace collection_watch_test {

struct CollectionWatchTest : ::testing::Test {
  /// Of the rule "shop.orders: number" that demands this.
  void begin(UniqueIndex demand) {
    around.rules = {{"shop.orders", "number", demand}};
    watch.emplace(Namespace{"shop", "orders"}, around);
    (void)watch->index(0, now);
  }
  [[nodiscard]] IndexState state() const { return watch->indexes().front().state; }
  void list(const IndexList& answer) {
    const auto request = watch->next_check(now);
    ASSERT_TRUE(request);
    watch->learn(std::get<ListIndexes>(*request), answer, now);
  }

  std::chrono::nanoseconds now = 1h;
  Surroundings around;
  std::optional<CollectionWatch> watch;
};

TEST_F(CollectionWatchTest, ListsMakesAndListsAgain) {
  begin(UniqueIndex::create);
  EXPECT_EQ(state(), IndexState::unchecked);
  list(indexes({}));
  EXPECT_EQ(state(), IndexState::to_make);
  EXPECT_FALSE(watch->next_check(now)) << "it waits";
  const auto request = watch->next_making(now);
  ASSERT_TRUE(request);
  EXPECT_FALSE(watch->next_making(now));
  now += 2s;
  list(indexes({}));
  EXPECT_EQ(state(), IndexState::building) << "by itself";
  EXPECT_FALSE(watch->is_checked());
  watch->learn(std::get<MakeIndex>(*request), MadeIndex{{}, true}, now);
  EXPECT_EQ(state(), IndexState::unchecked) << "it may be another collection by now";
  list(indexes({unique({"number"})}));
  EXPECT_EQ(state(), IndexState::guarded);
  EXPECT_TRUE(watch->indexes().front().is_ready());
  EXPECT_TRUE(watch->is_checked());
}

TEST_F(CollectionWatchTest, IsInTheStateThatTheListShows) {
  Index building = unique({"number"});
  building.building = true;
  const IndexList kNoCollection{{.kind = Kind::no_collection}};
  const struct {
    UniqueIndex demand;
    IndexList answer;
    IndexState state;
  } kRows[] = {
      {UniqueIndex::create, {{.kind = Kind::unreachable}}, IndexState::unchecked},
      {UniqueIndex::create, {{.kind = Kind::refused}}, IndexState::unchecked},
      {UniqueIndex::require, indexes({unique({"number"})}), IndexState::guarded},
      {UniqueIndex::require, indexes({own_index("number"), unique({"number"})}),
       IndexState::guarded},
      {UniqueIndex::create, indexes({own_index("number"), unique({"number"})}),
       IndexState::guarded_twice},
      {UniqueIndex::create, indexes({building}), IndexState::building},
      {UniqueIndex::create, {{.kind = Kind::not_permitted}}, IndexState::not_permitted},
      {UniqueIndex::create, kNoCollection, IndexState::no_collection},
      {UniqueIndex::require, kNoCollection, IndexState::lacking},
      {UniqueIndex::create, indexes({}), IndexState::to_make},
      {UniqueIndex::require, indexes({}), IndexState::lacking},
  };
  for (const auto& [demand, answer, expected] : kRows) {
    begin(demand);
    list(answer);
    EXPECT_EQ(state(), expected) << static_cast<int>(expected);
  }
}

TEST_F(CollectionWatchTest, WhatIsForgottenIsListedAgainAndAnOldAnswerIsVoid) {
  begin(UniqueIndex::require);
  const auto before = watch->next_check(now);
  ASSERT_TRUE(before);
  watch->forget("it has changed", now);
  watch->learn(std::get<ListIndexes>(*before), indexes({unique({"number"})}), now);
  EXPECT_EQ(state(), IndexState::unchecked);
  list(indexes({unique({"number"})}));
  EXPECT_EQ(state(), IndexState::guarded);
}

}  // namespace collection_watch_test
}  // namespace idproxy::id_store::test
