#include "id_store/inspection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/id_store/inspection_fixture.hpp"

namespace idproxy::id_store::test {
namespace inspection_test {

constexpr const char* kCommand =
    R"(db.getSiblingDB("shop").getCollection("orders").createIndex({"number": -1}, )"
    R"({unique: true, partialFilterExpression: {"number": {$exists: true}}, name: "number_idproxy"}))";

TEST_F(InspectionTest, AsksAboutWhatRulesNameLiterally) {
  watch({{"shop.orders", "number"},
         {"shop.orders", "_id"},
         {"shop.c*", "x"},
         {"b.c.d", "n", UniqueIndex::warn, true},
         {"*.logs", "y"}});
  EXPECT_FALSE(known->is_checked());
  EXPECT_THAT(round(), ElementsAre("left_alone b", "left_alone shop", "indexes b.c.d",
                                   "documents b.c.d", "indexes shop.orders"));
  EXPECT_TRUE(known->is_checked());
  EXPECT_THAT(round(), IsEmpty());
  EXPECT_GE(known->due(Asks::checks), now);
}

TEST_F(InspectionTest, AsksAgainAfterAMinuteAndAboutIndexesAfterTenSeconds) {
  watch({{"shop.orders", "number"}});
  EXPECT_EQ(round().size(), 2U);
  EXPECT_EQ(known->due(Asks::checks), now + 10s);
  now += 10s;
  EXPECT_THAT(round(), ElementsAre("indexes shop.orders"));
  now += 50s;
  EXPECT_EQ(round().size(), 2U);
}

TEST_F(InspectionTest, AsksTenTimesASecondAboutIndexesOfManyCollections) {
  watch({{"shop.*", "number"}});
  for (int i = 0; i < 300; ++i) readiness("shop", "c" + std::to_string(i));
  EXPECT_EQ(round().size(), 301U);
  EXPECT_EQ(known->due(Asks::checks), now + 30s);
}

TEST_F(InspectionTest, AsksAboutWhatComesUpThroughWildcards) {
  watch({{"*.logs", "x", UniqueIndex::warn, true}});
  EXPECT_TRUE(known->is_checked());
  EXPECT_EQ(known->due(Asks::checks), Inspection::kNever);
  EXPECT_EQ(readiness("a", "logs").kind, Readiness::Kind::ready);
  EXPECT_TRUE(known->take_news());
  EXPECT_FALSE(known->take_news());
  EXPECT_TRUE(known->space("a.logs", "x", now).fill);
  EXPECT_TRUE(known->take_news());
  EXPECT_THAT(round(), ElementsAre("left_alone a", "indexes a.logs", "documents a.logs"));
}

// --- Views and time-series collections ---

TEST_F(InspectionTest, LeavesViewsAlone) {
  watch({{"shop.*", "number", UniqueIndex::require}, {"shop.*", "_id"}});
  const auto version = known->version();
  EXPECT_THAT(round({{"left_alone shop", views({"v"})}}), ElementsAre("left_alone shop"));
  EXPECT_GT(known->version(), version);
  EXPECT_EQ(readiness("shop", "v").kind, Readiness::Kind::left_alone);
  EXPECT_EQ(readiness("shop", "v", 1).kind, Readiness::Kind::left_alone);
  EXPECT_EQ(readiness("shop", "orders", 1).kind, Readiness::Kind::ready);
  EXPECT_THAT(round(), ElementsAre("indexes shop.orders"));
}

TEST_F(InspectionTest, AsksNothingAboutAView) {
  watch({{"shop.orders", "number", UniqueIndex::create, true}});
  EXPECT_THAT(round({{"left_alone shop", views({"orders"})}}), ElementsAre("left_alone shop"));
  EXPECT_TRUE(known->is_checked());
  now += 60s;
  EXPECT_THAT(round({{"indexes shop.orders", ServerAnswer{.kind = Kind::no_collection}}}),
              ElementsAre("left_alone shop", "indexes shop.orders", "documents shop.orders"));
}

TEST_F(InspectionTest, TakesCollectionsForOrdinaryIfTheListIsNotPermitted) {
  watch({{"shop.*", "_id"}});
  EXPECT_EQ(round({{"left_alone shop", views({"v"})}}).size(), 1U);
  now += 60s;
  EXPECT_EQ(round({{"left_alone shop", ServerAnswer{.kind = Kind::not_permitted}}}).size(), 1U);
  EXPECT_EQ(readiness("shop", "v").kind, Readiness::Kind::ready);
  EXPECT_THAT(log_events(),
              ElementsAre(HasSubstr("missing_privilege the id store's user may not "
                                    "listCollections in shop: views and time-series")));
  now += 60s;
  EXPECT_EQ(round({{"left_alone shop", ServerAnswer{.kind = Kind::not_permitted}},
                   {"indexes shop.v", ServerAnswer{.kind = Kind::not_permitted}}})
                .size(),
            2U);
  EXPECT_THAT(log_events(), IsEmpty());
}

TEST_F(InspectionTest, KeepsViewsForAMinuteWhileTheStoreIsDown) {
  watch({{"shop.*", "_id"}});
  EXPECT_EQ(round({{"left_alone shop", views({"v"})}}).size(), 1U);
  now += 60s;
  for (int i = 0; i < 6; ++i, now += 10s) {
    EXPECT_EQ(round({{"left_alone shop", kUnreachable}}).size(), 1U);
    EXPECT_EQ(readiness("shop", "v").kind, Readiness::Kind::left_alone);
  }
  const auto version = known->version();
  EXPECT_EQ(round({{"left_alone shop", kUnreachable}}).size(), 1U);
  EXPECT_EQ(readiness("shop", "v").kind, Readiness::Kind::ready);
  EXPECT_GT(known->version(), version);
}

// --- Unique indexes ---

TEST_F(InspectionTest, WarnsOnceOfAMissingIndex) {
  watch({{"shop.orders", "number"}});
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  EXPECT_EQ(round({{"indexes shop.orders", indexes({unique({"_id"})})}}).size(), 2U);
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  const std::vector<LogEvent> said = known->take_log_events(now);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].event, "no_unique_index");
  EXPECT_EQ(said[0].message, "no unique index keeps a value from being stored twice");
  EXPECT_EQ(said[0].fields[2].second, kCommand);
  now += 60s;
  EXPECT_EQ(round({{"indexes shop.orders", indexes({})}}).size(), 2U);
  EXPECT_THAT(log_events(), IsEmpty());
}

TEST_F(InspectionTest, SaysWhenAnIndexGoesAndComes) {
  watch({{"shop.orders", "number"}});
  const IndexList guarded = indexes({unique({"number"})});
  EXPECT_EQ(round({{"indexes shop.orders", guarded}}).size(), 2U);
  EXPECT_THAT(known->lack_index(), IsEmpty());
  for (int i = 0; i < 2; ++i) {
    now += 10s;
    EXPECT_EQ(round({{"indexes shop.orders", indexes({})}}).size(), 1U);
    EXPECT_THAT(log_events(), ElementsAre(HasSubstr("no_unique_index ")));
    EXPECT_EQ(known->lack_index().size(), 1U);
    now += 10s;
    EXPECT_EQ(round({{"indexes shop.orders", kUnreachable}}).size(), 1U);
    EXPECT_EQ(known->lack_index().size(), 1U) << "nobody knows better";
    static_cast<void>(log_events());
    now += 10s;
    EXPECT_THAT(round({{"indexes shop.orders", guarded}}),
                testing::Contains("indexes shop.orders"));
    EXPECT_THAT(log_events(), testing::Contains(HasSubstr("unique_index_again ")));
    EXPECT_THAT(known->lack_index(), IsEmpty());
  }
}

TEST_F(InspectionTest, CountsCollectionsWithoutAnIndex) {
  watch({{"shop.*", "number"}});
  for (const char* name : {"a", "b", "c"}) readiness("shop", name);
  EXPECT_EQ(round({{"indexes shop.a", indexes({})},
                   {"indexes shop.b", indexes({unique({"number"})})},
                   {"indexes shop.c", indexes({})}})
                .size(),
            4U);
  const auto lacks = known->lack_index();
  ASSERT_EQ(lacks.size(), 1U);
  EXPECT_EQ(lacks.at(0).ns, "shop.a");
  EXPECT_EQ(lacks.at(0).collections, 2U);
  now += 10s;
  const IndexList guarded = indexes({unique({"number"})});
  EXPECT_EQ(round({{"indexes shop.a", ServerAnswer{.kind = Kind::no_collection}},
                   {"indexes shop.b", guarded},
                   {"indexes shop.c", guarded}})
                .size(),
            3U);
  EXPECT_THAT(known->lack_index(), IsEmpty());
}

TEST_F(InspectionTest, SaysEachIndexThatItMakes) {
  watch({{"shop.orders", "number", UniqueIndex::create}});
  const auto make = [&](bool is_new) {
    while (const auto request = known->next(Asks::checks, now)) {
      learn(*request, indexes({}));
    }
    const auto request = known->next(Asks::indexes, now);
    ASSERT_TRUE(request);
    learn(*request, MadeIndex{{}, is_new});
    EXPECT_THAT(round({{"indexes shop.orders", indexes({unique({"number"})})}}),
                ElementsAre("indexes shop.orders"));
  };
  make(true);
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("unique_index_made the proxy has made the")));
  now += 10s;
  make(true);
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("unique_index_made the unique index on the field "
                                                  "had gone")));
  now += 10s;
  make(false);
  EXPECT_THAT(log_events(), IsEmpty()) << "another proxy has made it";
}

TEST_F(InspectionTest, SaysNothingAboutACollectionThatIsNotThere) {
  watch({{"shop.orders", "number"}});
  EXPECT_EQ(round({{"indexes shop.orders", ServerAnswer{.kind = Kind::no_collection}}}).size(), 2U);
  EXPECT_THAT(log_events(), IsEmpty());
  now += 60s;
  EXPECT_EQ(round({{"indexes shop.orders", indexes({})}}).size(), 2U);
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("no_unique_index ")));
}

struct IndexCase {
  const char* name;
  Index index;
  bool guards;
  const char* log_event;
};

TEST_F(InspectionTest, RemembersUniqueIndexes) {
  watch({{"shop.orders", "number"}, {"shop.ids", "_id"}});
  const auto of = [&](const char* ns) { return known->unique_indexes(ns, now); };
  EXPECT_EQ(of("shop.orders"), std::nullopt);
  Index other = unique({"mail"});
  other.unique = false;
  const auto found = indexes({unique({"_id"}), unique({"number"}), unique({"a.b", "t"}), other});
  EXPECT_THAT(round({{"indexes shop.orders", found}}),
              ElementsAre("left_alone shop", "indexes shop.ids", "indexes shop.orders"));
  EXPECT_EQ(of("shop.orders"), ids::UniqueIndexes({{"number"}, {"a.b", "t"}}));
  // Of a collection that no rule has made it look at, only what it is asked for.
  EXPECT_EQ(of("shop.ids"), ids::UniqueIndexes());
  EXPECT_EQ(of("shop.more"), std::nullopt);
  EXPECT_TRUE(known->take_news());
  EXPECT_THAT(round({{"indexes shop.more", indexes({unique({"_id"})})}}),
              ElementsAre("indexes shop.more"));
  EXPECT_EQ(of("shop.more"), ids::UniqueIndexes());
  EXPECT_THAT(round(), IsEmpty());
  // What cannot be known any more.
  now += 60s;
  EXPECT_EQ(round({{"indexes shop.orders", ServerAnswer{.kind = Kind::no_collection}},
                   {"indexes shop.ids", ServerAnswer{.kind = Kind::not_permitted}}})
                .size(),
            4U);
  EXPECT_EQ(of("shop.orders"), std::nullopt);
  EXPECT_EQ(of("shop.ids"), std::nullopt);
}

TEST_F(InspectionTest, KnowsWhichIndexesGuardAField) {
  Index plain = unique({"number"});
  plain.unique = false;
  Index partial = unique({"number"});
  partial.partial.kind = Index::Partial::Kind::other;
  Index exists = unique({"number"});
  exists.partial = {Index::Partial::Kind::exists, "number"};
  const IndexCase kCases[] = {
      {"only_field", unique({"number"}), true, ""},
      {"not_unique", plain, false, "twice"},
      {"other_field", unique({"other"}), false, "twice"},
      {"first_of_two", unique({"number", "x"}), false,
       "twice (i does not do: its key has further fields, and values may repeat)"},
      {"second_of_two", unique({"x", "number"}), false, "twice"},
      {"partial", partial, false, "(i does not do: it holds some of the documents only)"},
      {"of_those_that_have_it", exists, true, ""},
  };
  for (const IndexCase& c : kCases) {
    watch({{"shop.orders", "number"}});
    EXPECT_EQ(round({{"indexes shop.orders", indexes({c.index})}}).size(), 2U);
    const Texts said = log_events();
    EXPECT_EQ(said.empty(), c.guards) << c.name;
    EXPECT_THAT(said.empty() ? "" : said[0], HasSubstr(c.log_event)) << c.name;
  }
}

TEST_F(InspectionTest, RequiredIndexMakesARuleReady) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  auto stands = readiness("shop", "orders");
  EXPECT_EQ(stands.kind, Readiness::Kind::not_ready);
  EXPECT_EQ(stands.error.code, ids::Errc::unavailable);
  EXPECT_THAT(stands.error.reason, HasSubstr("has not been checked yet"));

  EXPECT_EQ(round({{"indexes shop.orders", ServerAnswer{.kind = Kind::no_collection}}}).size(), 2U);
  stands = readiness("shop", "orders");
  EXPECT_EQ(stands.kind, Readiness::Kind::not_ready);
  EXPECT_EQ(stands.error.code, ids::Errc::exhausted);
  EXPECT_THAT(stands.error.reason, HasSubstr(kCommand));
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("not_ready ")));

  now += 2s;
  EXPECT_THAT(round(), ElementsAre("indexes shop.orders"));
  EXPECT_THAT(log_events(), IsEmpty());
  now += 2s;
  EXPECT_EQ(round({{"indexes shop.orders", indexes({unique({"number"})})}}).size(), 1U);
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("ready_again ")));
}

TEST_F(InspectionTest, ARuleThatWasReadyStaysReadyWhileTheStoreIsDown) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  EXPECT_EQ(round({{"indexes shop.orders", indexes({unique({"number"})})}}).size(), 2U);
  now += 60s;
  EXPECT_EQ(round({{"left_alone shop", kUnreachable}}).size(), 1U);
  now += 1s;
  EXPECT_EQ(round({{"indexes shop.orders", kUnreachable}}).size(), 1U);
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  now += 1s;
  EXPECT_EQ(round().size(), 0U);
}

TEST_F(InspectionTest, ARuleThatCannotBeCheckedIsNotReady) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  EXPECT_EQ(round({{"left_alone shop", kUnreachable}}).size(), 1U);
  EXPECT_TRUE(known->is_checked());
  now += 1s;
  EXPECT_EQ(round({{"indexes shop.orders", kUnreachable}}).size(), 1U);
  const auto stands = readiness("shop", "orders");
  EXPECT_EQ(stands.error.code, ids::Errc::unavailable);
  EXPECT_THAT(stands.error.reason, HasSubstr("the id store does not answer"));
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("inspection_failing "), HasSubstr("not_ready ")));
}

TEST_F(InspectionTest, AsksAllAgainWhenTheStoreIsBack) {
  watch({{"a.a", "x"}, {"b.b", "x", UniqueIndex::require}, {"c.c", "x"}});
  for (int i = 0; i < 3; ++i, now += 1s) {
    const auto request = known->next(Asks::checks, now);
    ASSERT_TRUE(request);
    learn(*request, kUnreachable);
    EXPECT_FALSE(known->next(Asks::checks, now));
    EXPECT_GT(known->due(Asks::checks), now);
  }
  EXPECT_THAT(round(), ElementsAre("indexes a.a", "left_alone a", "left_alone b", "left_alone c",
                                   "indexes b.b", "indexes c.c"));
  EXPECT_THAT(log_events(),
              ElementsAre(HasSubstr("inspection_failing "), HasSubstr("not_ready "),
                          HasSubstr("inspection_again "), HasSubstr("no_unique_index"),
                          HasSubstr("not_ready"), HasSubstr("no_unique_index")));
}

TEST_F(InspectionTest, ARuleNeedsThePrivilegeToCheck) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  EXPECT_EQ(round({{"indexes shop.orders", ServerAnswer{.kind = Kind::not_permitted}}}).size(), 2U);
  const auto stands = readiness("shop", "orders");
  EXPECT_EQ(stands.error.code, ids::Errc::exhausted);
  EXPECT_THAT(stands.error.reason, HasSubstr("may not listIndexes of shop.orders"));
}

TEST_F(InspectionTest, SaysWhenThereIsNoUserToGrantAPrivilegeTo) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  EXPECT_EQ(
      round({{"indexes shop.orders", ServerAnswer{.kind = Kind::not_permitted, .has_user = false}}})
          .size(),
      2U);
  EXPECT_THAT(readiness("shop", "orders").error.reason,
              HasSubstr("the id store, which logs in as no user, may not listIndexes of "
                        "shop.orders"));
}

TEST_F(InspectionTest, MakesAnIndexWhereThereIsNone) {
  watch({{"shop.orders", "number", UniqueIndex::create}});
  while (const auto request = known->next(Asks::checks, now)) learn(*request, {});
  const auto request = known->next(Asks::indexes, now);
  ASSERT_TRUE(request);
  EXPECT_EQ(text_of(*request), "make_index shop.orders number");
  learn(*request, {});
  EXPECT_NE(readiness("shop", "orders").kind, Readiness::Kind::ready) << "it is looked at first";
  EXPECT_THAT(round({{"indexes shop.orders", indexes({unique({"number"})})}}),
              ElementsAre("indexes shop.orders"));
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  EXPECT_THAT(log_events(), IsEmpty());
}

/// For a check, which makes none.
TEST_F(InspectionTest, SaysWhichIndexesAProxyWouldMake) {
  watch({{"shop.orders", "number", UniqueIndex::offer},
         {"shop.bills", "number", UniqueIndex::offer},
         {"shop.items", "number", UniqueIndex::offer},
         {"shop.other", "number", UniqueIndex::warn}});
  EXPECT_EQ(round({{"indexes shop.orders", ServerAnswer{.kind = Kind::no_collection}},
                   {"indexes shop.items", indexes({unique({"number"})})}})
                .size(),
            5U);
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  EXPECT_THAT(
      known->lack_index(),
      ElementsAre(
          testing::Key(0U), testing::Key(1U),
          testing::Pair(3U, MissingIndex{"shop.other",
                                         Commands().mongosh(
                                             "db.getSiblingDB(\"shop\").getCollection(\"other\")."
                                             "createIndex({\"number\": -1}, "
                                             "{unique: true, partialFilterExpression: "
                                             "{\"number\": {$exists: true}}, "
                                             "name: \"number_idproxy\"})"),
                                         ""})));
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("no_unique_index"))) << "of the last one";
}

TEST_F(InspectionTest, IsNotReadyWhileAnIndexIsMade) {
  watch({{"shop.orders", "number", UniqueIndex::create}});
  while (const auto request = known->next(Asks::checks, now)) learn(*request, {});
  const auto request = known->next(Asks::indexes, now);
  ASSERT_TRUE(request);
  EXPECT_FALSE(known->is_checked());
  now += 10s;
  Index building = unique({"number"});
  building.building = true;
  const auto look = known->next(Asks::checks, now);
  ASSERT_TRUE(look);
  learn(*look, indexes({building}));
  const auto stands = readiness("shop", "orders");
  EXPECT_EQ(stands.error.code, ids::Errc::unavailable);
  EXPECT_THAT(stands.error.reason, HasSubstr("still being built"));
  EXPECT_FALSE(known->next(Asks::indexes, now));
  learn(*request, {});
  EXPECT_THAT(round({{"indexes shop.orders", indexes({unique({"number"})})}}),
              ElementsAre("indexes shop.orders"));
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  EXPECT_TRUE(known->is_checked());
}

TEST_F(InspectionTest, SaysWhyAnIndexCannotBeMade) {
  watch({{"shop.orders", "number", UniqueIndex::create}});
  const ServerAnswer refused{.kind = Kind::refused,
                             .reason = "there are documents with the same value"};
  EXPECT_EQ(round({{"make_index shop.orders number", refused}}).size(), 3U);
  auto stands = readiness("shop", "orders");
  EXPECT_EQ(stands.error.code, ids::Errc::exhausted);
  EXPECT_EQ(stands.error.reason,
            "the unique index on the field cannot be made: there are documents with the same "
            "value");
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("not_ready ")));

  now += 2s;
  EXPECT_THAT(round({{"make_index shop.orders number", ServerAnswer{.kind = Kind::not_permitted}}}),
              ElementsAre("indexes shop.orders", "make_index shop.orders number"));
  stands = readiness("shop", "orders");
  EXPECT_THAT(stands.error.reason, HasSubstr("may not createIndex in shop.orders"));
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("missing_privilege "), HasSubstr("not_ready ")));

  now += 10s;
  EXPECT_EQ(round({{"indexes shop.orders", indexes({unique({"number"})})}}).size(), 1U);
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
  EXPECT_THAT(log_events(), ElementsAre(HasSubstr("ready_again ")));
}

// --- The index that is advised ---

struct AdviceTest : InspectionTest {
  static IndexList offering(IndexForm form, std::string name = {}) {
    IndexList response = indexes({});
    response.offers["number"] = {form, std::move(name)};
    return response;
  }
  std::string advice_after(const IndexList& response) {
    (void)round({{"indexes shop.orders", response}});
    return readiness("shop", "orders").error.reason;
  }
};

TEST_F(AdviceTest, FitsTheDocuments) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  EXPECT_THAT(advice_after(offering(IndexForm::existing)), HasSubstr(kCommand));
  now += 600s;
  EXPECT_THAT(advice_after(offering(IndexForm::partial, "number_idproxy_2")),
              HasSubstr(R"({unique: true, partialFilterExpression: {"number": {$type: "number"}}, )"
                        R"(name: "number_idproxy_2"})"));
}

TEST_F(AdviceTest, IsAskedForOnceInTenMinutesWhileThereIsNoIndex) {
  watch({{"shop.orders", "number", UniqueIndex::require}});
  const auto asked = [&](const IndexList& response) {
    while (auto request = known->next(Asks::checks, now)) {
      const auto* listing = std::get_if<ListIndexes>(&*request);
      if (listing == nullptr) continue;
      known->learn(*listing, response, now);
      return !listing->advise.empty();
    }
    ADD_FAILURE() << "nothing is due";
    return false;
  };
  EXPECT_TRUE(asked(offering(IndexForm::existing)));
  for (int i = 0; i < 299; ++i) {
    now += 2s;
    EXPECT_FALSE(asked(indexes({})));
  }
  now += 2s;
  EXPECT_TRUE(asked(offering(IndexForm::partial)));
  EXPECT_THAT(readiness("shop", "orders").error.reason, HasSubstr("$type"));
}

TEST_F(InspectionTest, RestsAfterALongTryToMakeAnIndex) {
  watch({{"shop.orders", "number", UniqueIndex::create}});
  while (const auto request = known->next(Asks::checks, now)) learn(*request, {});
  const auto request = known->next(Asks::indexes, now);
  ASSERT_TRUE(request);
  now += 100s;
  learn(*request, ServerAnswer{.kind = Kind::refused, .reason = "no"});
  EXPECT_EQ(known->due(Asks::indexes), now + 1000s);
}

// --- Numbers ---

struct FillTest : InspectionTest {
  void SetUp() override {
    watch({{"a.b", "n", UniqueIndex::warn, true}});
    fill = known->space("a.b", "n", now).fill;
    fill->limit({1000, 0.1, 0.9});
  }
  Texts count(std::uint64_t count) {
    now += 60s;
    EXPECT_GE(
        round({{"documents a.b", documents(count)}, {"indexes a.b", indexes({unique({"n"})})}})
            .size(),
        3U);
    return log_events();
  }
  std::shared_ptr<ids::Fill> fill;
};

TEST_F(FillTest, IsCounted) {
  EXPECT_THAT(count(50), IsEmpty());
  EXPECT_EQ(fill->seen().documents, 50U);
  EXPECT_EQ(known->space("a.b", "n", now).fill, fill);
}

TEST_F(FillTest, IsWarnedOfOnceAnHour) {
  EXPECT_THAT(count(200),
              ElementsAre("numbers_run_out 20 % of the possible numbers are in use, and at "
                          "max_fill (90 %), that is with 900 documents, no more will be given "
                          "out"));
  for (int i = 0; i < 59; ++i) EXPECT_THAT(count(200), IsEmpty());
  EXPECT_EQ(count(300).size(), 1U);
}

TEST_F(FillTest, IsAnErrorOnceItIsUsedUp) {
  EXPECT_THAT(count(901),
              ElementsAre("numbers_used_up 90.1 % of the possible numbers are in use, more than "
                          "max_fill (90 %): no more are given out"));
  EXPECT_THAT(count(901), IsEmpty());
  EXPECT_FALSE(fill->draw(1));
}

TEST_F(FillTest, CountsDocumentsWithAValueIfItIsKnownHowMany) {
  DocumentCount some = documents(1000);
  some.with_value = {{"n", 40U}, {"other", 900U}};
  now += 60s;
  EXPECT_EQ(round({{"documents a.b", some}}).size(), 3U);
  EXPECT_EQ(fill->seen().documents, 40U);
}

TEST_F(FillTest, AsksWhichDocumentsHaveAValue) {
  while (const auto request = known->next(Asks::checks, now)) {
    const auto* counting = std::get_if<CountDocuments>(&*request);
    if (counting != nullptr) {
      EXPECT_EQ(counting->fields, Texts{"n"});
    }
  }
}

TEST_F(FillTest, TakesAllDocumentsForNumbersIfItMayNotLook) {
  DocumentCount refused = documents(50);
  refused.may_not_find = true;
  now += 60s;
  EXPECT_EQ(round({{"documents a.b", refused}}).size(), 3U);
  EXPECT_EQ(fill->seen().documents, 50U);
  EXPECT_THAT(log_events(), testing::Contains(HasSubstr("missing_privilege the id store's user may "
                                                        "not find in a: ")));
}

TEST_F(FillTest, IsCountedAgainBeforeAWarning) {
  EXPECT_THAT(count(50), IsEmpty());
  now += 3s;
  EXPECT_TRUE(fill->draw(1000));
  fill->collided(300);  // 30 % are in use, say the duplicates
  now += 2s;
  EXPECT_THAT(log_events(), IsEmpty());
  EXPECT_THAT(round({{"documents a.b", documents(310)}}), ElementsAre("documents a.b"));
  const std::vector<LogEvent> said = known->take_log_events(now);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].event, "numbers_run_out");
  EXPECT_EQ(said[0].fields[2].second, "310");
}

TEST_F(FillTest, IsCountedWhenTheDrawsSayThatItGrew) {
  EXPECT_THAT(count(50), IsEmpty());
  now += 5s;
  EXPECT_TRUE(fill->draw(19));
  EXPECT_THAT(log_events(), IsEmpty());
  EXPECT_THAT(round(), IsEmpty());
  (void)known->take_news();
  now += 5s;
  EXPECT_TRUE(fill->draw(1));  // a fiftieth of the space
  EXPECT_THAT(log_events(), IsEmpty());
  EXPECT_TRUE(known->take_news());
  EXPECT_THAT(round({{"documents a.b", documents(70)}}),
              ElementsAre("indexes a.b", "documents a.b"));
  EXPECT_EQ(fill->seen().documents, 70U);
}

TEST_F(FillTest, IsWarnedOfAgainWhenHalfOfTheRestIsUsed) {
  EXPECT_EQ(count(200).size(), 1U);
  EXPECT_THAT(count(549), IsEmpty());
  EXPECT_EQ(count(551).size(), 1U);
  EXPECT_THAT(count(700), IsEmpty());
  EXPECT_EQ(count(730).size(), 1U);
}

TEST_F(FillTest, SaysSoIfNobodyCanCount) {
  EXPECT_TRUE(fill->draw(1000));
  fill->collided(500);
  EXPECT_EQ(round({{"documents a.b", ServerAnswer{.kind = Kind::not_permitted}}}).size(), 3U);
  const std::vector<LogEvent> said = known->take_log_events(now);
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said.back().event, "numbers_run_out");
  EXPECT_EQ(said.back().fields[2].second, "unknown");
}

TEST_F(FillTest, IsZeroWithoutTheCollection) {
  EXPECT_EQ(count(500).size(), 1U);
  now += 60s;
  EXPECT_EQ(round({{"documents a.b", ServerAnswer{.kind = Kind::no_collection}}}).size(), 3U);
  EXPECT_EQ(fill->seen().documents, 0U);
}

TEST_F(FillTest, KeepsWhatWasCountedLast) {
  EXPECT_EQ(count(500).size(), 1U);
  now += 60s;
  EXPECT_EQ(round({{"documents a.b", ServerAnswer{.kind = Kind::not_permitted}}}).size(), 3U);
  EXPECT_EQ(fill->seen().documents, 500U);
  EXPECT_THAT(log_events(), testing::Contains(HasSubstr("missing_privilege the id store's user may "
                                                        "not collStats in a: ")));
}

// --- Where rules are not ready ---

struct ReadinessTest : InspectionTest {
  /// "RULE NS REASON" with "view", or "later" or "never" in front of a reason.
  Texts not_ready(std::size_t most_per_rule = 100) const {
    Texts texts;
    for (const ids::NotReady& each : known->not_ready(most_per_rule)) {
      std::string text = std::to_string(each.rule_index) + " " + each.ns;
      if (each.readiness.kind == Readiness::Kind::left_alone) {
        text += " view";
      } else {
        EXPECT_EQ(each.readiness.kind, Readiness::Kind::not_ready);
        const bool later = each.readiness.error.code == ids::Errc::unavailable;
        text += (later ? " later: " : " never: ") + each.readiness.error.reason;
      }
      texts.push_back(text);
    }
    return texts;
  }
};

TEST_F(ReadinessTest, OfWhatRulesNameIsKnownBeforeAnybodyAsks) {
  watch({{"shop.warned", "number"},
         {"shop.required", "number", UniqueIndex::require},
         {"shop.created", "number", UniqueIndex::create},
         {"shop.view", "_id"},
         {"shop.ids", "_id", UniqueIndex::require},
         {"other.*", "number", UniqueIndex::require}});
  EXPECT_THAT(not_ready(), ElementsAre(HasSubstr("2 shop.created later: "),
                                       HasSubstr("1 shop.required later: whether a unique index")));
  const ServerAnswer no_collection{.kind = Kind::no_collection};
  EXPECT_EQ(round({{"left_alone shop", views({"view", "other"})},
                   {"indexes shop.created", no_collection}})
                .size(),
            6U);
  EXPECT_THAT(not_ready(),
              ElementsAre("3 shop.view view", HasSubstr("1 shop.required never: no ")));
  now += 60s;
  EXPECT_THAT(round({{"indexes shop.required", indexes({unique({"number"})})},
                     {"indexes shop.created", no_collection}}),
              testing::SizeIs(7));
  EXPECT_THAT(not_ready(), IsEmpty());
}

TEST_F(ReadinessTest, OfWildcardsIsKnownOfWhatWasAskedAbout) {
  watch({{"shop.*", "number", UniqueIndex::require}, {"*", "x", UniqueIndex::require}});
  EXPECT_THAT(not_ready(), IsEmpty());
  for (const char* name : {"a", "b", "view"}) {
    EXPECT_EQ(readiness("shop", name).kind, Readiness::Kind::not_ready);
  }
  EXPECT_EQ(readiness("shop", "b", 1).kind, Readiness::Kind::not_ready);
  EXPECT_EQ(round({{"left_alone shop", views({"view"})},
                   {"indexes shop.a", indexes({unique({"number"})})}})
                .size(),
            4U)
      << "and the names of the databases";
  EXPECT_THAT(not_ready(),
              ElementsAre(HasSubstr("0 shop.b never: "), HasSubstr("1 shop.b never: ")));
}

TEST_F(ReadinessTest, AsksNothing) {
  watch({{"*", "number"}});
  EXPECT_THAT(not_ready(), IsEmpty());
  EXPECT_FALSE(known->take_news());
  EXPECT_THAT(round(), IsEmpty());
}

TEST_F(ReadinessTest, ListsSoManyOfARule) {
  watch({{"a.*", "number", UniqueIndex::require}, {"b.*", "number", UniqueIndex::require}});
  for (const char* name : {"one", "two", "three"}) {
    EXPECT_EQ(readiness("a", name).kind, Readiness::Kind::not_ready);
  }
  EXPECT_EQ(readiness("b", "b", 1).kind, Readiness::Kind::not_ready);
  EXPECT_THAT(not_ready(2),
              ElementsAre(HasSubstr("0 a.one "), HasSubstr("0 a.three "), HasSubstr("1 b.b ")));
}

TEST_F(ReadinessTest, KnowsFullSpaces) {
  watch({{"a.c", "n", UniqueIndex::warn, true},
         {"a.*", "m", UniqueIndex::warn, true},
         {"*", "n", UniqueIndex::warn, true}});
  for (const char* ns : {"a.b", "a.c"}) known->space(ns, "n", now).fill->limit({1000, 0.1, 0.9});
  const std::map<std::string, Answer> full{{"documents a.b", documents(901)},
                                           {"documents a.c", documents(950)}};
  EXPECT_EQ(round(full).size(), 4U);
  EXPECT_THAT(not_ready(),
              ElementsAre("2 a.b never: 90.1 % of the possible numbers are in use, more than "
                          "max_fill (90 %): no more are given out",
                          HasSubstr("0 a.c never: 95 % ")));
  now += 60s;
  EXPECT_EQ(round().size(), 4U);
  EXPECT_THAT(not_ready(), IsEmpty());
}

// --- Memory ---

TEST_F(InspectionTest, ForgetsWhatIsAskedAboutLeastRecently) {
  watch({{"shop.orders", "number", UniqueIndex::require}, {"*", "number", UniqueIndex::require}});
  EXPECT_EQ(round({{"indexes shop.orders", indexes({unique({"number"})})}}).size(), 3U);
  const std::map<std::string, Answer> found{{"indexes a.first", indexes({unique({"number"})})}};
  EXPECT_EQ(readiness("a", "first", 1).kind, Readiness::Kind::not_ready);
  EXPECT_EQ(round(found).size(), 2U);
  EXPECT_EQ(readiness("a", "first", 1).kind, Readiness::Kind::ready);
  (void)known->take_answers();  // for which it holds the guard
  for (std::size_t i = 0; i < kMostUnused; ++i) {
    EXPECT_EQ(readiness("a", "x" + std::to_string(i), 1).kind, Readiness::Kind::not_ready);
  }
  EXPECT_EQ(readiness("a", "first", 1).kind, Readiness::Kind::not_ready);
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
}

TEST_F(InspectionTest, ForgetsNoCollectionThatIsInUse) {
  watch({{"*", "number", UniqueIndex::require}});
  const auto used = known->guard(0, "a", "used", now);
  ASSERT_EQ(round({{"indexes a.used", indexes({unique({"number"})})}}).size(), 2U);
  const std::uint64_t version = known->version();
  for (std::size_t i = 0; i < 3 * kMostUnused; ++i) {
    (void)known->guard(0, "b" + std::to_string(i), "x", now);
  }
  EXPECT_EQ(known->guard(0, "a", "used", now), used);
  EXPECT_EQ(readiness("a", "used").kind, Readiness::Kind::ready);
  EXPECT_EQ(known->version(), version) << "plans of others stay";
}

TEST_F(InspectionTest, KnowsTheMissingIndexOfEveryCollectionInUse) {
  watch({{"*", "number", UniqueIndex::warn}});
  const Readiness used = readiness("a", "used");
  (void)round();
  for (std::size_t i = 0; i < 3 * kMostUnused; ++i) {
    (void)readiness("b", std::to_string(i));
  }
  now += 10min;
  const auto asked = round();
  EXPECT_NE(std::ranges::find(asked, "indexes a.used"), asked.end());
}

/// What a call costs hardly depends on how many there are.
TEST_F(InspectionTest, KnowsAsManyAsAreInUse) {
  constexpr std::size_t kMany = kMostUnused + 10;
  watch({{"*", "number", UniqueIndex::require}});
  std::vector<std::shared_ptr<ids::Guard>> used;
  for (std::size_t i = 0; i < kMany; ++i) {
    used.push_back(known->guard(0, "a", std::to_string(i), now));
  }
  EXPECT_EQ(round().size(), kMany + 1);
  EXPECT_EQ(known->due(Asks::checks), now + 2s);
  known->begin_change({"a", "7"}, now);
  known->end_change({"a", "7"}, now);
  EXPECT_EQ(round().size(), 1U) << "the collection that has changed";
}

TEST_F(InspectionTest, ChecksEachLessOftenIfThereAreMoreThan4096) {
  watch({{"*", "_id"}});
  std::vector<Readiness> used;
  const std::pair<std::size_t, std::chrono::seconds> kRows[] = {{kMostUnused, 60s},
                                                                {2 * kMostUnused, 120s}};
  for (const auto& [many, again] : kRows) {
    now += 60s;
    while (used.size() < many) used.push_back(readiness("a", std::to_string(used.size())));
    EXPECT_EQ(round().size(), many + 1);
    EXPECT_EQ(known->due(Asks::checks), now + again);
  }
}

// --- Values that repeat by design ---

TEST_F(InspectionTest, RequiresTheIndexOfAScope) {
  WatchedRule rule{"shop.orders", "number", UniqueIndex::require};
  rule.scope = {"tenant"};
  watch({rule});
  (void)round({{"indexes shop.orders", indexes({unique({"number"})})}});
  const Readiness refused = readiness("shop", "orders");
  EXPECT_EQ(refused.kind, Readiness::Kind::not_ready);
  EXPECT_EQ(
      refused.error.reason,
      "no unique index guards the field (i does not do: its key must be the field and those "
      "of `scope`); make it with "
      R"(db.getSiblingDB("shop").getCollection("orders").createIndex({"tenant": 1, )"
      R"("number": -1}, {unique: true, partialFilterExpression: {"number": {$exists: true}}, )"
      R"(name: "tenant_number_idproxy"}))");
  now += 2s;
  (void)round({{"indexes shop.orders", indexes({unique({"tenant", "number"})})}});
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
}

TEST_F(InspectionTest, MakesTheIndexOfAScope) {
  WatchedRule rule{"shop.orders", "number", UniqueIndex::create};
  rule.scope = {"site.name", "tenant"};
  watch({rule});
  (void)known->next(Asks::checks, now);
  const auto listed = known->next(Asks::checks, now);
  ASSERT_TRUE(listed);
  EXPECT_THAT(std::get<ListIndexes>(*listed).advise, IsEmpty()) << "nobody has to type a command";
  learn(*listed, {});
  const auto made = known->next(Asks::indexes, now);
  ASSERT_TRUE(made);
  EXPECT_EQ(std::get<MakeIndex>(*made).field.repeats.scope, rule.scope);
}

TEST_F(InspectionTest, MakesNoIndexOnAFieldThatItDoesNotKnow) {
  WatchedRule rule{"shop.orders", "number", UniqueIndex::create};
  rule.repeats = true;
  watch({rule});
  EXPECT_THAT(round(), ElementsAre("left_alone shop", "indexes shop.orders"));
  EXPECT_THAT(readiness("shop", "orders").error.reason,
              HasSubstr("<a field that differs from period to period>: 1}"));
  now += 2s;
  (void)round({{"indexes shop.orders", indexes({unique({"number", "day"})})}});
  EXPECT_EQ(readiness("shop", "orders").kind, Readiness::Kind::ready);
}

}  // namespace inspection_test
}  // namespace idproxy::id_store::test
