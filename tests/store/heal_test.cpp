#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "counter_fixture.hpp"
#include "idproxy/ids/number_format.hpp"

namespace idproxy::id_store::test {
namespace heal_test {

using testing::HasSubstr;
using testing::StartsWith;
using Mode = CounterSpec::Heal::Mode;
using namespace std::chrono_literals;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

class HealTest : public CounterTest {};

TEST_F(HealTest, RaisesAndReservesAtOnce) {
  counter("10");
  unique_index();
  orders({337});
  EXPECT_EQ(heal(100), allocated(338, 100));
  EXPECT_EQ(value(), 438);
}

TEST_F(HealTest, RaisesTheLast) {
  spec.place.value_is = CounterPlace::ValueIs::last;
  counter("10");
  unique_index();
  orders({337});
  EXPECT_EQ(heal(100), allocated(338, 100));
  EXPECT_EQ(value(), 437);
}

TEST_F(HealTest, LowersWhatCountsDown) {
  spec.step = -1;
  spec.max = std::numeric_limits<std::int64_t>::min();
  counter("100");
  unique_index();
  orders({70, 90});
  EXPECT_EQ(heal(10), allocated(69, 10));
  EXPECT_EQ(value(), 59);
}

TEST_F(HealTest, NeverSetsBack) {
  counter("500");
  unique_index();
  orders({337});
  EXPECT_EQ(heal(100), allocated(500, 100));
}

TEST_F(HealTest, GoesBeyondWhatThisProcessWasGiven) {
  counter("10");
  unique_index();
  orders({337});
  EXPECT_EQ(heal(100, 999, true), allocated(1000, 100));
}

TEST_F(HealTest, OtherTypesAreNotInTheWay) {
  counter("10");
  unique_index();
  orders({20});
  database.insert("orders", R"({"number": "zzz"})");
  database.insert("orders", R"({"number": {"$numberDecimal": "30"}})");
  database.insert("orders", R"({"number": {"$numberDouble": "31.5"}})");
  EXPECT_EQ(heal(10), allocated(32, 10));
}

TEST_F(HealTest, ConvertsADouble) {
  counter(R"({"$numberDouble": "10"})");
  unique_index();
  orders({20});
  EXPECT_EQ(heal(10), allocated(21, 10));
  EXPECT_EQ(database.value("counters", "V").kind, StoredValue::Kind::integer);
}

TEST_F(HealTest, RefusesWithoutAnIndex) {
  counter("10");
  orders({337});
  const CounterReply reply = heal(100, 9);
  EXPECT_EQ(reply.kind, Kind::not_healed);
  EXPECT_THAT(reply.why.reason, HasSubstr("createIndex"));
  EXPECT_EQ(heal(100).kind, Kind::exhausted);  // heal.at_start: it wants to know first
  EXPECT_EQ(heal(100, 400, true).kind, Kind::exhausted);
  EXPECT_EQ(value(), 10);
}

TEST_F(HealTest, AJumpThatIsTooLargeFillsTheGap) {
  counter("10");
  unique_index();
  orders({10, 11, 12, 14, kMax - 1});
  EXPECT_EQ(heal(5), allocated(15, 5));
  EXPECT_EQ(value(), 20);
  EXPECT_EQ(allocate(5), allocated(20, 5));
}

TEST_F(HealTest, AnArrayDoesNotHideTheMax) {
  counter("1");
  unique_index();
  orders({1, 2, 50});
  database.insert("orders", R"({"number": [60, 61, "a"]})");
  EXPECT_EQ(heal(10), allocated(62, 10));
}

TEST_F(HealTest, GapKnowsWhatArraysHold) {
  spec.heal.mode = Mode::gap;
  counter("1");
  unique_index();
  orders({1, 2});
  database.insert("orders", R"({"number": [3, 4, "a"]})");
  EXPECT_EQ(heal(10), allocated(5, 10));
}

/// The counter is not behind: only numbers that others stored are left out.
TEST_F(HealTest, KeepsWhatIsFree) {
  counter("8");
  unique_index();
  orders({1, 2, 3, 4, 5});
  EXPECT_EQ(heal({{5, 3}}, 7), kept({{5, 1}}));
  orders({7});
  EXPECT_EQ(heal({{5, 3}}, 7), kept({{5, 1}, {7, 1}}));
  EXPECT_EQ(heal({{6, 1}}, 7), kept({}));
  EXPECT_EQ(heal(std::vector<Range>(), 7), kept({}));
  EXPECT_EQ(value(), 8);
}

TEST_F(HealTest, KeepsWhatIsFreeThoughOthersStoreFurtherOn) {
  counter("300");
  unique_index();
  orders({3, 4, 5, 200});
  EXPECT_EQ(heal({{5, 90}}, 100), kept({{5, 1}}));
}

TEST_F(HealTest, KeepsNothingOfACounterThatIsBehind) {
  counter("8");
  unique_index();
  orders({3, 4, 5, 8});
  EXPECT_EQ(heal({{5, 3}}, 7), allocated(9, 10));
}

TEST_F(HealTest, KeepsNothingOfACounterThatWentBackOrIsLost) {
  counter("6");
  unique_index();
  orders({3, 4, 5});
  EXPECT_EQ(heal({{5, 3}}, 7), allocated(8, 10));
  EXPECT_EQ(heal(10, 17, true), allocated(18, 10));
}

TEST_F(HealTest, KeepsWhatIsFreeOfACounterThatCountsDownInSteps) {
  spec.step = -5;
  spec.max = std::numeric_limits<std::int64_t>::min();
  counter("50");
  unique_index();
  orders({100, 95, 85, 70});
  EXPECT_EQ(heal({{90, 8}}, 55), kept({{85, 1}, {70, 1}}));
}

TEST_F(HealTest, KeepsWhatIsFreeInModeGap) {
  spec.heal.mode = Mode::gap;
  counter("8");
  unique_index();
  orders({3, 4, 5, 8, 9, 1000});
  EXPECT_EQ(heal({{5, 3}}, 7), kept({{5, 1}}));
  EXPECT_EQ(heal({{5, 1}}, 7), allocated(10, 10));
}

TEST_F(HealTest, KeepsWhatIsFreeIfAJumpIsTooLarge) {
  counter("8");
  unique_index();
  orders({3, 4, 5, kMax - 1});
  EXPECT_EQ(heal({{5, 3}}, 7), kept({{5, 1}}));
  EXPECT_EQ(value(), 8);
}

TEST_F(HealTest, KeepsTextsThatAreFree) {
  fields[0].format.output = NumberFormat::Output::string;
  fields[0].format.prefix = "A";
  counter("20");
  unique_index();
  const auto text = [&](std::int64_t number) { return ids::number_text(number, fields[0].format); };
  for (const std::uint32_t pad : {0U, 4U}) {
    fields[0].format.pad = pad;
    for (const std::int64_t number : {7, 8, 9, 11}) {
      database.insert("orders", Document().add("number", text(number)));
    }
    EXPECT_EQ(heal({{9, 11}}, 19), kept({{9, 1}, {11, 1}}));
  }
}

TEST_F(HealTest, UpToTheEndOfInt64) {
  spec.heal.max_jump = kMax;
  counter("10");
  unique_index();
  orders({kMax - 5});
  EXPECT_EQ(heal(100), allocated(kMax - 4, 4));
  EXPECT_EQ(heal(100).kind, Kind::exhausted);
}

TEST_F(HealTest, GapTakesTheLongestRowThatIsNear) {
  spec.heal.mode = Mode::gap;
  spec.max = 20;
  counter("10");
  unique_index();
  orders({10, 12, 15, 17, 19});
  EXPECT_EQ(heal(5), allocated(13, 2));
  EXPECT_EQ(value(), 15);
}

TEST_F(HealTest, GapGoesBehindManyPagesOfTakenNumbers) {
  spec.heal.mode = Mode::gap;
  counter("1");
  unique_index();
  Array documents;
  for (int i = 1; i <= 2500; ++i) documents.push(Document().add("number", i));
  database.write(Document().add("insert", "orders").add("documents", documents));
  EXPECT_EQ(heal(100), allocated(2501, 100));
}

TEST_F(HealTest, NothingIsLeftInTheGap) {
  spec.heal.mode = Mode::gap;
  spec.max = 3;
  counter("1");
  unique_index();
  orders({1, 2, 3});
  EXPECT_EQ(heal(100).kind, Kind::exhausted);
  EXPECT_EQ(value(), 1);
}

TEST_F(HealTest, PaddedStringsAreRead) {
  fields[0].format = {NumberFormat::Output::string, 5, "A-", "/x"};
  spec.max = 99999;
  counter("10");
  unique_index();
  for (const char* text : {"A-00020/x", "A-00337/x", "A-9", "A-99999/y", "B-00500/x", "zzz"}) {
    database.insert("orders", Document().add("number", text));
  }
  EXPECT_EQ(heal(100), allocated(338, 100));
}

TEST_F(HealTest, StringsOfVaryingWidthFillTheGap) {
  fields[0].format = {NumberFormat::Output::string, 0, "A", ""};
  counter("9");
  unique_index();
  for (const char* text : {"A9", "A10", "A12"})
    database.insert("orders", Document().add("number", text));
  EXPECT_EQ(heal(3), allocated(13, 3));
}

TEST_F(HealTest, ADeletedDocumentIsCreated) {
  unique_index();
  orders({337});
  EXPECT_EQ(heal(100, 400, true), allocated(401, 100));
  EXPECT_EQ(value(), 501);
}

class FailureTest : public CounterTest {
 protected:
  void TearDown() override { database.fail_find_and_modify(0, "{}"); }
};

TEST_F(FailureTest, WithoutAMajorityTheBlockIsDropped) {
  counter("1");
  database.fail_find_and_modify(1, R"({"writeConcernError": {"code": 64, "errmsg": "timed out"}})");
  EXPECT_EQ(allocate(10), allocated(11, 10));
  EXPECT_EQ(metrics.blocks_dropped, 1U);
}

TEST_F(FailureTest, ABadValueThatIsNoOverflowIsNotTheEnd) {
  counter("700");
  database.fail_find_and_modify(1, R"({"errorCode": 2})");
  const CounterReply refused = allocate(10);
  EXPECT_EQ(refused.kind, Kind::exhausted);
  EXPECT_TRUE(refused.why.by_server);
  // "via …" since 6.0, "due to …" before.
  EXPECT_THAT(refused.why.reason,
              StartsWith("the id store answered with error 2 BadValue: Failing command "));
  EXPECT_EQ(allocate(10), allocated(700, 10));
}

TEST_F(FailureTest, ABrokenConnectionIsTriedAgainOnceByTheDriver) {
  counter("1");
  database.fail_find_and_modify(1, R"({"closeConnection": true})");
  EXPECT_EQ(allocate(10), allocated(1, 10));
  EXPECT_EQ(metrics.blocks_dropped, 0U);
}

TEST_F(FailureTest, WhatServersMayHaveDoneIsDropped) {
  counter("1");
  database.fail_find_and_modify(2, R"({"closeConnection": true})");
  (void)allocate(10);
  EXPECT_EQ(metrics.blocks_dropped, 1U);
  database.fail_find_and_modify(2, R"({"errorCode": 91})");
  (void)allocate(10);
  EXPECT_EQ(metrics.blocks_dropped, 2U);
}

/// Twice, for libmongoc sends it again.
TEST_F(FailureTest, WhatIsSentBackByOneThatIsNotThePrimaryIsNot) {
  counter("1");
  std::int64_t next = 1;
  for (const char* code : {"10107", "13435"}) {
    database.fail_find_and_modify(2, R"({"errorCode": )" + std::string(code) + "}");
    CounterReply reply = allocate(10);
    // On a slow machine libmongoc's own repetition takes longer than a job repeats anything.
    for (int i = 0; i < 20 && reply.kind == Kind::failed; ++i) reply = allocate(10);
    EXPECT_EQ(reply, allocated(next, 10)) << code;
    next += 10;
  }
  EXPECT_EQ(metrics.blocks_dropped, 0U);
}

/// The server refuses to create the counter meanwhile.
TEST_F(FailureTest, WaitsForADatabaseThatIsBeingDropped) {
  counter("1");
  database.fail_find_and_modify(3, R"({"errorCode": 215})");
  const auto begun = std::chrono::steady_clock::now();
  CounterReply reply = allocate(10);
  // A slow machine needs longer for an attempt than a job repeats anything.
  EXPECT_TRUE(reply.kind == Kind::allocated || std::chrono::steady_clock::now() - begun >= 500ms);
  for (int i = 0; i < 3 && reply.kind == Kind::failed; ++i) reply = allocate(10);
  EXPECT_EQ(reply, allocated(1, 10));
  database.fail_find_and_modify(20, R"({"errorCode": 215})");
  reply = allocate(10);
  EXPECT_EQ(reply.kind, Kind::failed) << "not for ever";
  for (int i = 0; i < 20 && reply.kind == Kind::failed; ++i) reply = allocate(10);
  EXPECT_EQ(reply, allocated(11, 10));
  EXPECT_EQ(metrics.blocks_dropped, 0U);
}

TEST_F(FailureTest, NoNumberTwiceHoweverOftenTheConnectionBreaks) {
  counter("1");
  std::int64_t last = 0;
  for (int times = 1; times <= 3; ++times) {
    database.fail_find_and_modify(times, R"({"closeConnection": true})");
    for (CounterReply reply = allocate(10);; reply = allocate(10)) {
      if (reply.kind != Kind::allocated) continue;
      EXPECT_GT(reply.range.first, last);
      last = reply.range.first + 9;
      break;
    }
  }
}

TEST_F(FailureTest, AMissingPrivilegeIsNamed) {
  counter("1");
  database.fail_find_and_modify(1, R"({"errorCode": 13})");
  const CounterReply reply = allocate(10);
  EXPECT_EQ(reply.kind, Kind::exhausted);
  EXPECT_THAT(reply.why.reason, HasSubstr("needs readWrite on " + database.name()));
}

TEST_F(FailureTest, WhatIsNotKnownToBeGivenBackIsNobodys) {
  counter("1");
  EXPECT_EQ(allocate(10), allocated(1, 10));
  database.fail_find_and_modify(2, R"({"closeConnection": true})");
  EXPECT_EQ(give_back({5, 6}).kind, Kind::given_back);
}

TEST_F(FailureTest, NobodyThere) {
  mongo::Pool nowhere("mongodb://127.0.0.1:1", std::chrono::seconds(5));
  mongo::Client client = nowhere.client();
  CounterDocument counter(spec, metrics, scans);
  const auto begun = std::chrono::steady_clock::now();
  const CounterReply reply =
      counter.run(client, {CounterJob::Kind::allocate, 10, {}, false, {}}, fields);
  const auto answered = std::chrono::steady_clock::now();
  EXPECT_EQ(reply.kind, Kind::failed);
  EXPECT_EQ(reply.why.reason, "the id store does not answer: its primary cannot be reached");
  EXPECT_FALSE(counter.reached());
  EXPECT_THAT(counter.unreached(), HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(counter.run(client, {CounterJob::Kind::give_back, 2, {}, false, {5, 2}}, fields).kind,
            Kind::not_sent);
  EXPECT_LT(answered - begun, std::chrono::milliseconds(2000));
  EXPECT_EQ(metrics.blocks_dropped, 0U);
}

}  // namespace heal_test
}  // namespace idproxy::id_store::test
