#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "counter_fixture.hpp"
#include "idproxy/ids/number_format.hpp"

/// Where no unique index guards the field, nothing but the counter keeps numbers apart.
namespace idproxy::id_store::test {
namespace unguarded_test {

using testing::HasSubstr;
using testing::Not;
using Mode = CounterSpec::Heal::Mode;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kPossible = 128 * 100;
constexpr std::int64_t kCertain = 128 * 100'000;

class UnguardedTest : public CounterTest {
 protected:
  void text_format(std::uint32_t pad, const std::string& suffix = "") {
    fields[0].format = {NumberFormat::Output::string, pad, "INV-", suffix};
  }
  void texts(std::int64_t from, std::int64_t to) {
    Array documents;
    for (std::int64_t i = from; i <= to; ++i) {
      documents.push(Document().add("number", ids::number_text(i, fields[0].format)));
    }
    database.write(Document().add("insert", "orders").add("documents", documents));
  }
  void text(const std::string& text) { database.insert("orders", Document().add("number", text)); }
};

// ---- a counter that was lost

TEST_F(UnguardedTest, CreatedForTheFirstTimeItBeginsRightBehindWhatIsStored) {
  plain_index();
  orders({5});
  EXPECT_EQ(allocate(10), allocated(6, 10));
}

TEST_F(UnguardedTest, TheVeryFirstNumberIsStart) {
  spec.start = 1000;
  plain_index();
  orders({5});
  EXPECT_EQ(allocate(10), allocated(1000, 10));
}

TEST_F(UnguardedTest, CreatedAgainByAProcessThatNeverHadNumbersOfIt) {
  plain_index();
  orders({5});
  EXPECT_EQ(allocate(10), allocated(6, 10));
  database.remove_all("counters");
  document.reset();
  EXPECT_EQ(allocate(10), allocated(6 + kCertain, 10));
}

TEST_F(UnguardedTest, AMarkIsEnoughToKnowThatItWasLost) {
  mark();
  plain_index();
  EXPECT_EQ(allocate(10), allocated(1 + kCertain, 10));
}

TEST_F(UnguardedTest, WithAUniqueIndexALostCounterGoesOnRightBehindWhatIsStored) {
  mark();
  unique_index();
  orders({5});
  EXPECT_EQ(allocate(10), allocated(6, 10));
}

TEST_F(UnguardedTest, ACounterThatIsThereIsMarkedWithItsFirstNumbers) {
  counter("10");
  EXPECT_EQ(allocate(10), allocated(10, 10));
  EXPECT_EQ(database.all("idproxyCounterMarks"),
            R"({ "_id" : { "collection" : "counters", "query" : { "_id" : "c" }, "field" : "V" }, )"
            R"("used" : true })");
  const std::uint64_t sent = metrics.round_trips.sent;
  EXPECT_EQ(allocate(10), allocated(20, 10));
  EXPECT_EQ(metrics.round_trips.sent, sent + 1);
}

/// Release 0.2 wrote no fields: its mark may be that of the other counter.
TEST_F(UnguardedTest, AMarkWithoutAFieldIsForADocumentThatIsMissing) {
  mark();
  plain_index();
  database.insert("counters", R"({"_id": "c", "other": 5})");
  EXPECT_EQ(allocate(10), allocated(1, 10));
  EXPECT_EQ(value(), 11);
  database.write(json(R"({"update": "counters", "updates": [
      {"q": {"_id": "c"}, "u": {"$unset": {"V": 1}}}]})"));
  document.reset();
  EXPECT_EQ(allocate(10), allocated(1 + kCertain, 10));
}

/// As release 0.2 did.
TEST_F(UnguardedTest, AMarkLeavesOutTheFieldOfTheUsualLayout) {
  spec.place.value_field = "COUNT";
  mark();
  plain_index();
  EXPECT_EQ(allocate(10), allocated(1 + kCertain, 10));
  EXPECT_THAT(database.all("idproxyCounterMarks"), Not(HasSubstr("COUNT")));
}

/// As during a step-down.
TEST_F(UnguardedTest, AMarkWithoutAMajorityIsWrittenAgain) {
  counter("10");
  database.fail("update", 1, R"({"writeConcernError": {"code": 91, "errmsg": "replaced"}})");
  EXPECT_EQ(allocate(10), allocated(10, 10));
}

/// A process that ended between the two writes.
TEST_F(UnguardedTest, ACounterThatWasCreatedAndNeverUsedWasNotLost) {
  plain_index();
  orders({5});
  mongo::Client client = pool().client();
  CounterDocument other(spec, metrics, scans);
  const CounterJob job{CounterJob::Kind::allocate, 1};
  EXPECT_TRUE(other.check(client, fields, job, CounterDocument::Demand::waits).has_value());
  EXPECT_EQ(value(), 6);
  EXPECT_EQ(database.all("idproxyCounterMarks"), "");
  database.remove_all("counters");
  EXPECT_EQ(allocate(10), allocated(6, 10));
}

TEST_F(UnguardedTest, CreatedAgainPastTheLargestInserts) {
  spec.block.size = 1;
  plain_index();
  orders({5});
  EXPECT_EQ(allocate(10, 777), allocated(778 + kCertain, 10));
}

TEST_F(UnguardedTest, HealedPastTheLargestInserts) {
  spec.block.size = 10;
  counter("10");
  plain_index();
  orders({337});
  EXPECT_EQ(heal(100, 400, true), allocated(401 + kCertain, 100));
}

TEST_F(UnguardedTest, LargeBlocksCountMore) {
  spec.block.size = 200'000;
  counter("10");
  plain_index();
  EXPECT_EQ(heal(100, 400, true), allocated(401 + 128 * 200'000, 100));
}

TEST_F(UnguardedTest, HealedDownwards) {
  spec.step = -2;
  spec.start = 0;
  spec.max = std::numeric_limits<std::int64_t>::min();
  counter("-10");
  plain_index();
  orders({-40});
  EXPECT_EQ(heal(10, -20, true), allocated(-42 - 2 * kCertain, 10));
}

TEST_F(UnguardedTest, WhatAnotherProxyHasRaisedStaysThere) {
  counter("20000000");
  plain_index();
  orders({337});
  EXPECT_EQ(heal(100, 400, true), allocated(20'000'000, 100));
}

TEST_F(UnguardedTest, ACounterFoundBehindAtStartMayHaveBeenLost) {
  counter("10");
  plain_index();
  orders({337});
  EXPECT_EQ(heal(100), allocated(338 + kPossible, 100));
}

TEST_F(UnguardedTest, ThenOthersMayHoldBlocksOfAnySize) {
  spec.block.size.reset();
  counter("10");
  plain_index();
  orders({337});
  EXPECT_EQ(heal(100), allocated(338 + 128 * 10'000, 100));
}

TEST_F(UnguardedTest, ACounterFoundAheadAtStartStaysThere) {
  counter("500");
  plain_index();
  orders({337});
  EXPECT_EQ(heal(100), allocated(500, 100));
}

TEST_F(UnguardedTest, WithoutRoomTheReasonSaysWhatToType) {
  spec.max = 1'000'000;
  plain_index();
  orders({5});
  const CounterReply reply = allocate(10, 777);
  EXPECT_EQ(reply.kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, HasSubstr(".createIndex({\"number\": -1}, "
                                          "{unique: true, partialFilterExpression: {\"number\": "
                                          "{$exists: true}}, name: \"number_idproxy\"})"));
  EXPECT_THAT(reply.why.reason,
              HasSubstr("db.getSiblingDB(\"" + database.name() +
                        "\").getCollection(\"counters\").updateOne({ \"_id\" : \"c\" "
                        "}, {$set: {\"V\": NumberLong(\"778\")}}, {upsert: true})"));
  EXPECT_EQ(database.all("counters"), "");
  counter("10");
  EXPECT_EQ(heal(10, 777, true).why.reason, reply.why.reason);
  EXPECT_EQ(value(), 10);
}

// ---- what guards

TEST_F(UnguardedTest, SeveralCollectionsAreNotGuardedByTheirIndexes) {
  fields.push_back({database.name() + ".bills", "number", {}});
  unique_index();
  database.create_index("bills", "number", Database::Unique::yes);
  counter("10");
  orders({337});
  EXPECT_EQ(heal(10, 400, true), allocated(401 + kCertain, 10));
}

TEST_F(UnguardedTest, NorTwoFieldsOfOne) {
  fields.push_back({database.name() + ".orders", "other", {}});
  unique_index();
  database.create_index("orders", "other", Database::Unique::yes);
  orders({337});
  mark();
  EXPECT_EQ(allocate(10), allocated(338 + kCertain, 10));
}

TEST_F(UnguardedTest, NorAWildcardThatMatchesOneSoFar) {
  fields[0].ns = database.name() + ".ord*";
  unique_index();
  orders({337});
  mark();
  EXPECT_EQ(allocate(10), allocated(338 + kCertain, 10));
}

// ---- numbers that are far away

TEST_F(UnguardedTest, OneNumberThatIsNeverReachedDoesNotUseUpTheCounter) {
  plain_index();
  orders({3, 4, 5, kMax - 1});
  EXPECT_EQ(allocate(10), allocated(6, 10));
}

TEST_F(UnguardedTest, OneThatTheCounterWouldReachIsPassed) {
  plain_index();
  orders({3, 4, 5, 5'000'000'000});
  EXPECT_EQ(allocate(10), allocated(5'000'000'001, 10));
}

TEST_F(UnguardedTest, AHealSetsTheSameNumbersAside) {
  counter("3");
  plain_index();
  orders({3, 4, 5, kMax - 1});
  EXPECT_EQ(heal(10), allocated(6 + kPossible, 10));
}

/// Nothing would detect that another number is taken.
TEST_F(UnguardedTest, AHealKeepsWhatLiesBehindTheFurthest) {
  counter("20");
  plain_index();
  orders({3, 4, 5, 9});
  EXPECT_EQ(heal({{5, 15}}, 19), kept({{5, 5}}));
  EXPECT_EQ(value(), 20);
}

TEST_F(UnguardedTest, AHealThatWouldJumpTooFarIsRefused) {
  counter("3");
  plain_index();
  orders({3, 4, 5, 5'000'000'000});
  const CounterReply reply = heal(10, 2);
  EXPECT_EQ(reply.kind, Kind::not_healed);
  EXPECT_THAT(reply.why.reason, HasSubstr("createIndex"));
  EXPECT_THAT(reply.why.reason, HasSubstr("raise heal.max_jump"));
  EXPECT_EQ(heal(10, 3, true).kind, Kind::exhausted);
  EXPECT_EQ(value(), 3);
}

TEST_F(UnguardedTest, AGapIsNotFilled) {
  spec.heal.mode = Mode::gap;
  counter("10");
  plain_index();
  orders({10, 12, 15, 17, 19});
  const CounterReply reply = heal(5, 9);
  EXPECT_EQ(reply.kind, Kind::not_healed);
  EXPECT_EQ(heal(5, 11, true).kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, HasSubstr("createIndex"));
  EXPECT_EQ(value(), 10);
}

TEST_F(UnguardedTest, NorThatOfSeveralCollections) {
  spec.heal.mode = Mode::gap;
  fields[0].ns = database.name() + ".ord*";
  unique_index();
  counter("10");
  orders({10});
  const CounterReply reply = heal(5, 9);
  EXPECT_EQ(reply.kind, Kind::not_healed);
  EXPECT_EQ(heal(5, 11, true).kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, Not(HasSubstr("createIndex")));
}

// ---- strings

TEST_F(UnguardedTest, StringsOfOneWidthAreReadThoughPadDoesNotCoverMax) {
  text_format(8, "/x");
  plain_index();
  texts(1, 100);
  texts(121, 399);
  EXPECT_EQ(allocate(10), allocated(400, 10));
}

TEST_F(UnguardedTest, AHealReadsThemToo) {
  text_format(8);
  counter("101");
  plain_index();
  texts(1, 100);
  texts(121, 399);
  EXPECT_EQ(heal(10, 110, true), allocated(400 + kCertain, 10));
}

TEST_F(UnguardedTest, AmongManyStringsNothingIsGuessed) {
  text_format(6);
  plain_index();
  for (int i = 0; i < 5; ++i) texts(1 + i * 50'000, (i + 1) * 50'000);
  EXPECT_EQ(allocate(10), allocated(250'001, 10));
}

TEST_F(UnguardedTest, OneStringThatIsLongerHidesTheMax) {
  text_format(3);
  plain_index();
  texts(900, 1002);
  const CounterReply reply = allocate(10);
  EXPECT_EQ(reply.kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, HasSubstr("createIndex"));
  EXPECT_THAT(reply.why.reason, HasSubstr("raise format.pad to 19"));
  EXPECT_EQ(database.all("counters"), "");
  counter("1");
  EXPECT_EQ(heal(10).why.reason, reply.why.reason);
  EXPECT_EQ(heal(10, 20, true).why.reason, reply.why.reason);
  EXPECT_EQ(value(), 1);
}

TEST_F(UnguardedTest, LongerStringsOfOthersDoNot) {
  text_format(3, "/x");
  plain_index();
  texts(1, 20);
  for (const char* other : {"INV-1000", "INV-0100/x", "INV-1000/y", "INV-12a4/x", "INX-1000/x"}) {
    text(other);
  }
  EXPECT_EQ(allocate(10), allocated(21, 10));
}

TEST_F(UnguardedTest, WithoutAPadAnyStringHidesTheMax) {
  text_format(0);
  plain_index();
  EXPECT_EQ(allocate(10), allocated(1, 10));
  database.remove_all("counters");
  texts(1, 30);
  EXPECT_EQ(allocate(10).kind, Kind::exhausted);
}

TEST_F(UnguardedTest, StringsThatCountDown) {
  text_format(3);
  spec.step = -1;
  spec.start = 2000;
  spec.max = -500;
  plain_index();
  texts(990, 1010);
  EXPECT_EQ(allocate(10), allocated(989, 10));
  database.remove_all("counters");
  database.remove_all("idproxyCounterMarks");
  texts(-30, -1);
  document.reset();
  EXPECT_EQ(allocate(10), allocated(-31, 10));
  database.remove_all("counters");
  texts(-1000, -1000);
  document.reset();
  EXPECT_EQ(allocate(10).kind, Kind::exhausted);
}

TEST_F(UnguardedTest, NegativeStringsThatCountUp) {
  text_format(3);
  spec.start = -2000;
  plain_index();
  texts(-40, -30);
  EXPECT_EQ(allocate(10), allocated(-29, 10));
  database.remove_all("counters");
  database.remove_all("orders");
  texts(-1500, -1400);
  EXPECT_EQ(allocate(10).kind, Kind::exhausted);
}

TEST_F(UnguardedTest, SignsOfPatternsInPrefixAndSuffix) {
  fields[0].format = {NumberFormat::Output::string, 4, "a.*(", ")+$"};
  plain_index();
  texts(1, 20);
  text("aaaa(0400)+$");
  EXPECT_EQ(allocate(10), allocated(21, 10));
}

// ---- arrays

TEST_F(UnguardedTest, AnArrayDoesNotHideTheMax) {
  plain_index();
  database.insert("orders", R"({"number": [7, "text"]})");
  database.insert("orders", R"({"number": [7, {"$numberLong": "9223372036854775807"}]})");
  spec.max = kMax - 1;
  orders({1, 2, 50});
  EXPECT_EQ(allocate(10), allocated(51, 10));
}

TEST_F(UnguardedTest, WhatItHoldsCounts) {
  plain_index();
  database.insert("orders", R"({"number": [7, 1000]})");
  orders({1, 2, 50});
  EXPECT_EQ(allocate(10), allocated(1001, 10));
}

TEST_F(UnguardedTest, SoDoesWhatAnArrayOfDocumentsHolds) {
  fields[0].field = "no.of";
  database.create_index("orders", "no.of", Database::Unique::no);
  database.insert("orders", R"({"no": [{"of": 4}, {"of": 60}, 7, {"other": 70}]})");
  database.insert("orders", R"({"no": {"of": 50}})");
  EXPECT_EQ(allocate(10), allocated(61, 10));
}

TEST_F(UnguardedTest, StringsBesideArrays) {
  text_format(4);
  plain_index();
  database.insert("orders", R"({"number": ["INV-0100", "INV-x"]})");
  texts(1, 20);
  EXPECT_EQ(allocate(10), allocated(101, 10));
}

}  // namespace unguarded_test
}  // namespace idproxy::id_store::test
