#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "id_store/reservation_sweeper.hpp"
#include "idproxy/base/server_release.hpp"
#include "reservations.hpp"

// One collection of reservations, and its sweeper.
namespace idproxy::id_store::test {
namespace reservation_test {

using namespace std::chrono_literals;
using ids::Errc;
using ids::ReservationBatch;
using testing::HasSubstr;
using testing::StartsWith;

class ReservationTest : public ReservationsTest {
 protected:
  ReservationSweeper::Swept sweep() {
    ReservationSweeper sweeper(spec, clock, metrics);
    return sweep(sweeper);
  }
  static ReservationSweeper::Swept sweep(ReservationSweeper& sweeper) {
    mongo::Client reader = pool().client();
    mongo::Client writer = pool().client();
    return sweeper.sweep(reader, writer, [](std::chrono::nanoseconds) { return true; });
  }
  void order(const std::string& document) { database.insert("orders", document); }
  /// Whether or not it is there.
  void drop() {
    (void)pool().client().write(database.name(), Document().add("drop", "orders__number"));
  }
  std::optional<ids::Error> prepare() {
    mongo::Client client = pool().client();
    return collection().prepare(client);
  }
};

INSTANTIATE_TEST_SUITE_P(Layouts, ReservationTest,
                         testing::Values(ids::ReserveSpec::Layout::id,
                                         ids::ReserveSpec::Layout::field),
                         layout_name);

TEST_P(ReservationTest, IsMadeOnce) {
  ReservationBatch batch{wanted("7", "\"a\"")};
  EXPECT_FALSE(make(batch));
  EXPECT_EQ(batch[0].state, State::made);
  const std::string stored = database.all("orders__number");
  EXPECT_THAT(stored, HasSubstr(R"("parent_id" : "a")"));
  EXPECT_THAT(stored, HasSubstr("\"" + spec.name + "\" : 7"));
  EXPECT_THAT(stored, HasSubstr(R"("at" : { "$date" : )"));
  EXPECT_EQ(reserve("7", "\"b\""), State::taken);
  EXPECT_EQ(reserve("8", "\"b\""), State::made);
  EXPECT_EQ(count(), 2U);
}

TEST_P(ReservationTest, OfTheSameDocumentIsItsOwnAndGetsALaterDate) {
  ReservationBatch first{wanted("7", "\"a\"")};
  EXPECT_FALSE(make(first));
  EXPECT_EQ(reserve("7", "\"a\""), State::own);
  // Whoever made it does not delete it any more.
  EXPECT_TRUE(release(first));
  EXPECT_EQ(count(), 1U);
  EXPECT_EQ(metrics.reservations_released, 0U);
}

TEST_P(ReservationTest, IsReleasedByItsDate) {
  ReservationBatch batch{wanted("7", "\"a\""), wanted("8", "\"a\""), wanted("9", "\"b\"")};
  EXPECT_FALSE(make(batch));
  batch.pop_back();
  EXPECT_TRUE(release(batch));
  EXPECT_EQ(count(), 1U);
  EXPECT_EQ(metrics.reservations_released, 2U);
  EXPECT_EQ(reserve("7", "\"c\""), State::made);
  EXPECT_TRUE(release(batch));
  EXPECT_EQ(count(), 2U);
}

TEST_P(ReservationTest, NumbersOfAnyTypeAreTheSame) {
  const char* kSevens[] = {"7", "7.0", R"({"$numberLong": "7"})", R"({"$numberDecimal": "7"})",
                           R"({"$numberDecimal": "7.00"})"};
  for (const char* first : kSevens) {
    database.remove_all("orders__number");
    EXPECT_EQ(reserve(first, "\"a\""), State::made);
    for (const char* second : kSevens) {
      EXPECT_EQ(reserve(second, "\"b\""), State::taken) << first << " and " << second;
      EXPECT_EQ(reserve(second, "\"a\""), State::own) << first << " and " << second;
    }
    EXPECT_EQ(reserve("7.5", "\"b\""), State::made);
    EXPECT_EQ(reserve("\"7\"", "\"b\""), State::made);
  }
}

TEST_P(ReservationTest, ManyKindsOfValues) {
  for (const char* value :
       {"null", "true", R"({"$oid": "507f1f77bcf86cd799439011"})", R"({"a": 1, "b": [2]})",
        R"({"$date": {"$numberLong": "5"}})", R"({"$binary": {"base64": "AAEC", "subType": "04"}})",
        R"({"$minKey": 1})", "\"\"", R"({"$numberDouble": "NaN"})"}) {
    EXPECT_EQ(reserve(value, "1"), State::made) << value;
    EXPECT_EQ(reserve(value, "2"), State::taken) << value;
    EXPECT_EQ(reserve(value, "1"), State::own) << value;
  }
  EXPECT_EQ(reserve(R"({"a": 1.0, "b": [2]})", "2"), State::taken);
}

TEST_P(ReservationTest, WhatCannotBeReservedIsRefused) {
  ReservationBatch batch{wanted("[1, 2]", "1"), wanted("5", "1"),
                         wanted(R"({"$regularExpression": {"pattern": "a", "options": ""}})", "1"),
                         wanted(R"({"$undefined": true})", "1")};
  batch.push_back(wanted("6", "1"));
  batch.back().value = {bson::Type::binary, std::string(std::size_t{13} << 20, '\0')};
  EXPECT_FALSE(make(batch));
  EXPECT_EQ(batch[0].state, State::refused);
  EXPECT_EQ(batch[0].code, ErrorCode::bad_value);
  EXPECT_EQ(batch[1].state, State::made);
  EXPECT_EQ(batch[2].state, State::refused);
  EXPECT_EQ(batch[3].state, State::refused);
  EXPECT_EQ(batch[4].state, State::refused);
  EXPECT_EQ(batch[4].code, 10334);
  EXPECT_EQ(count(), 1U);
}

TEST_P(ReservationTest, AValueThatOccursTwiceGoesToTheFirst) {
  ReservationBatch batch{wanted("5", "1"), wanted("5.0", "2"), wanted("5", "1"), wanted("6", "3")};
  EXPECT_FALSE(make(batch));
  EXPECT_EQ(batch[0].state, State::made);
  EXPECT_EQ(batch[1].state, State::taken);
  EXPECT_EQ(batch[2].state, State::own);
  EXPECT_EQ(batch[3].state, State::made);
}

TEST_P(ReservationTest, ABatchTakesOneCommand) {
  ReservationBatch batch;
  for (int i = 0; i < 1000; ++i) batch.push_back(wanted(std::to_string(i), std::to_string(i)));
  EXPECT_FALSE(make(batch));
  EXPECT_EQ(metrics.round_trips.sent, 1U);
}

class LargeBatchTest : public ReservationTest {};
INSTANTIATE_TEST_SUITE_P(Layouts, LargeBatchTest, testing::Values(ids::ReserveSpec::Layout::id),
                         layout_name);

TEST_P(LargeBatchTest, AHundredThousandThatAreTaken) {
  ReservationBatch batch;
  const ids::TypedValue parent = typed("1");
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes(4, '\0');
    store_i32(reinterpret_cast<std::uint8_t*>(bytes.data()), i);
    batch.push_back({.value = {bson::Type::int32, std::move(bytes)}, .parent_id = parent});
  }
  ReservationBatch again = batch;
  EXPECT_FALSE(make(batch));
  EXPECT_TRUE(
      std::ranges::all_of(batch, [](const auto& item) { return item.state == State::made; }));
  EXPECT_LE(metrics.round_trips.sent, 3U);
  for (auto& item : again) item.parent_id = typed("2");
  EXPECT_FALSE(make(again));
  EXPECT_TRUE(
      std::ranges::all_of(again, [](const auto& item) { return item.state == State::taken; }));
}

// ---- failures

TEST_P(ReservationTest, ALostAnswerCostsNothing) {
  database.fail("insert", 1, R"({"closeConnection": true})");
  EXPECT_EQ(reserve("5", "1"), State::made);
  // The server executes the insert, but says that no majority has it.
  database.fail("insert", 1, R"({"writeConcernError": {"code": 91, "errmsg": "shutting down"}})");
  EXPECT_EQ(reserve("6", "1"), State::own);
  database.fail("insert", 1, R"({"errorCode": 10107})");
  EXPECT_EQ(reserve("7", "1"), State::made);
  EXPECT_EQ(count(), 3U);
}

TEST_P(ReservationTest, ALastingFailureSaysWhy) {
  database.fail("insert", 1000, R"({"errorCode": 13})");
  ReservationBatch batch{wanted("5", "1")};
  auto failure = make(batch);
  database.fail_no_more();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Errc::exhausted);
  EXPECT_THAT(failure->reason, HasSubstr("needs readWrite on " + database.name()));
  EXPECT_EQ(batch[0].state, State::wanted);
  database.fail("insert", 1000, R"({"closeConnection": true})");
  failure = make(batch);
  database.fail_no_more();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Errc::unavailable);
  EXPECT_EQ(batch[0].state, State::wanted);
}

// ---- readiness

TEST_P(ReservationTest, TheIndexesAreMade) {
  drop();
  const auto failure = prepare();
  EXPECT_FALSE(failure) << failure->reason;
  std::vector<std::string> keys;
  mongo::Client client = pool().client();
  (void)client.list_indexes(spec.db, spec.collection, [&](Bytes index) {
    keys.push_back(as_json(bson::find(index, "key")->value));
    return true;
  });
  EXPECT_THAT(keys, testing::Contains(R"({ "at" : 1 })"));
  const bool is_field = GetParam() == Layout::field;
  EXPECT_EQ(std::ranges::count(keys, R"({ "number" : 1 })"), is_field ? 1 : 0);
  EXPECT_EQ(reserve("5", "1"), State::made);
  EXPECT_EQ(reserve("5", "2"), State::taken);
  EXPECT_FALSE(prepare());
}

TEST_P(ReservationTest, AnIndexThatCannotBeMadeIsNamed) {
  if (GetParam() == Layout::id) {
    database.insert("orders__number", R"({"_id": 1, "number": 5})");
    database.insert("orders__number", R"({"_id": 2, "number": 5})");
    EXPECT_FALSE(prepare());
    return;
  }
  database.drop_index("orders__number", "number");
  database.insert("orders__number", R"({"number": 5})");
  database.insert("orders__number", R"({"number": 5})");
  const auto failure = prepare();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, Errc::exhausted);
  EXPECT_EQ(failure->reason,
            "no unique index guards the collection of reservations, " + spec.ns() +
                ", and the proxy cannot make it (several reservations have the same value); make "
                "it with db.getSiblingDB(\"" +
                spec.db +
                "\").getCollection(\"orders__number\").createIndex({\"number\": -1}, {unique: "
                "true, partialFilterExpression: {\"number\": {$exists: true}}, name: "
                "\"number_idproxy\"})");
}

TEST_P(ReservationTest, AViewOrACappedCollectionDoesNotDo) {
  const auto becomes = [&](const std::string& options) {
    drop();
    database.write(Document().add("create", "orders__number").append(json(options)));
    const auto failure = prepare();
    return failure ? failure->reason : "";
  };
  const std::string what = "the collection of reservations, " + spec.ns() + ", ";
  EXPECT_EQ(becomes(R"({"viewOn": "orders", "pipeline": []})"),
            what + "is a view. Choose another one in `reserve`");
  EXPECT_EQ(becomes(R"({"capped": true, "size": 4096})"),
            what +
                "is capped: the server deletes its oldest documents. Choose another one in "
                "`reserve`");
  if (pool().client().wire_version() < server_release::k5_0) return;
  EXPECT_EQ(becomes(R"({"timeseries": {"timeField": "at"}})"),
            what + "is a time-series collection. Choose another one in `reserve`");
}

// ---- the sweeper

TEST_P(ReservationTest, OrphansGoAndOthersStay) {
  order(R"({"_id": "a", "number": 1})");
  order(R"({"_id": "b", "number": 99})");
  order(R"({"_id": "c", "number": 3.0})");
  order(R"({"_id": "d", "number": {"$numberDecimal": "4"}})");
  order(R"({"_id": 5.0, "number": 5})");
  order(R"({"_id": "f", "number": [6, 60]})");
  ReservationBatch batch{wanted("1", "\"a\""), wanted("2", "\"b\""), wanted("3", "\"c\""),
                         wanted("4", "\"d\""), wanted("5", "5"),     wanted("6", "\"f\""),
                         wanted("7", "\"g\""), wanted("99", "\"h\"")};
  EXPECT_FALSE(make(batch));
  EXPECT_EQ(sweep().read, 0U);
  clock.advance(24h - 1min);
  EXPECT_EQ(sweep().deleted, 0U);
  clock.advance(2min);
  const auto swept = sweep();
  EXPECT_EQ(swept.failure, "");
  EXPECT_EQ(swept.read, 8U);
  EXPECT_EQ(swept.deleted, 3U);
  EXPECT_EQ(metrics.reservations_swept, 3U);
  for (const char* value : {"1", "3", "4", "5", "6"}) {
    EXPECT_EQ(reserve(value, "\"new\""), State::taken) << value;
  }
  for (const char* value : {"2", "7", "99"}) {
    EXPECT_EQ(reserve(value, "\"new\""), State::made) << value;
  }
  EXPECT_EQ(sweep().deleted, 0U);
}

TEST_P(ReservationTest, TheFieldMayBeDeepDown) {
  spec.parent_field = "registration.number";
  order(R"({"_id": "a", "registration": {"number": 1}})");
  order(R"({"_id": "b", "registration": {"number": 99}})");
  order(R"({"_id": "c", "registration.number": 3})");
  ReservationBatch batch{wanted("1", "\"a\""), wanted("2", "\"b\""), wanted("3", "\"c\"")};
  EXPECT_FALSE(make(batch));
  clock.advance(25h);
  EXPECT_EQ(sweep().deleted, 2U);
  EXPECT_EQ(reserve("1", "\"x\""), State::taken);
}

TEST_P(ReservationTest, OneThatWasUsedAgainIsYoung) {
  EXPECT_EQ(reserve("1", "\"a\""), State::made);
  clock.advance(25h);
  EXPECT_EQ(reserve("1", "\"a\""), State::own);
  EXPECT_EQ(sweep().read, 0U);
}

TEST_P(ReservationTest, WhatAnOpenTransactionStoresIsNotStored) {
  order(R"({"_id": "other", "number": 0})");
  EXPECT_EQ(reserve("1", "\"a\""), State::made);
  EXPECT_EQ(reserve("2", "\"b\""), State::made);
  mongoc_client_t* client = mongoc_client_new(uri().c_str());
  bson_error_t error;
  mongoc_client_session_t* session = mongoc_client_start_session(client, nullptr, &error);
  ASSERT_NE(session, nullptr) << error.message;
  EXPECT_TRUE(mongoc_client_session_start_transaction(session, nullptr, &error)) << error.message;
  Document options;
  EXPECT_TRUE(mongoc_client_session_append(session, options.get(), &error));
  const Document insert = Document()
                              .add("insert", "orders")
                              .add("documents", Array().push(json(R"({"_id": "a", "number": 1})")));
  EXPECT_TRUE(mongoc_client_command_with_opts(client, database.name().c_str(), insert.get(),
                                              nullptr, options.get(), nullptr, &error))
      << error.message;
  clock.advance(25h);
  EXPECT_EQ(sweep().deleted, 2U);
  EXPECT_TRUE(mongoc_client_session_abort_transaction(session, &error)) << error.message;
  mongoc_client_session_destroy(session);
  mongoc_client_destroy(client);
}

TEST_P(ReservationTest, ThoseOfOtherProgramsWithoutADateStay) {
  database.insert("orders__number", "{\"" + spec.name + R"(": 1, "parent_id": "gone"})");
  database.insert("orders__number", "{\"" + spec.name + R"(": 2, "at": {"$date": 0}})");
  clock.advance(25h);
  EXPECT_EQ(sweep().read, 0U);
  EXPECT_EQ(count(), 2U);
  EXPECT_EQ(reserve("1", "\"gone\""), State::own);
}

TEST_P(ReservationTest, NothingIsSweptWhileTheCollectionIsGone) {
  EXPECT_EQ(reserve("1", "\"a\""), State::made);
  EXPECT_EQ(reserve("2", "\"b\""), State::made);
  clock.advance(25h);
  ReservationSweeper sweeper(spec, clock, metrics);
  const auto swept = sweep(sweeper);
  EXPECT_EQ(swept.failure, "");
  EXPECT_EQ(swept.deleted, 0U);
  EXPECT_EQ(count(), 2U);
  order(R"({"_id": "a", "number": 1})");
  EXPECT_EQ(sweep(sweeper).deleted, 1U) << "the next one, not that of tomorrow";
}

TEST_P(ReservationTest, AfterTheFirstPassOnlyWhatHasBecomeOldIsRead) {
  EXPECT_FALSE(prepare());
  for (int i = 0; i < 3; ++i) {
    order("{\"_id\": " + std::to_string(i) + ", \"number\": " + std::to_string(i) + "}");
    EXPECT_EQ(reserve(std::to_string(i), std::to_string(i)), State::made);
  }
  clock.advance(25h);
  EXPECT_EQ(reserve("3", "3"), State::made);
  ReservationSweeper sweeper(spec, clock, metrics);
  EXPECT_EQ(sweep(sweeper).read, 3U);
  clock.advance(1h);
  EXPECT_EQ(sweep(sweeper).read, 0U);
  clock.advance(24h);
  const auto swept = sweep(sweeper);
  EXPECT_EQ(swept.read, 1U);
  EXPECT_EQ(swept.deleted, 1U);
}

TEST_P(ReservationTest, ManyAreSweptInPages) {
  ReservationBatch batch;
  for (int i = 0; i < 2500; ++i) {
    std::string parent = std::to_string(i);
    parent.insert(0, 24 - parent.size(), '0');
    batch.push_back(wanted(std::to_string(i), R"({"$oid": ")" + parent + R"("})"));
  }
  EXPECT_FALSE(make(batch));
  for (int i = 0; i < 10; ++i) {
    order(R"({"_id": {"$oid": "00000000000000000000000)" + std::to_string(i) + R"("}, "number": )" +
          std::to_string(i) + "}");
  }
  clock.advance(25h);
  ReservationSweeper sweeper(spec, clock, metrics);
  mongo::Client reader = pool().client();
  mongo::Client writer = pool().client();
  int pages = 0;
  const auto swept = sweeper.sweep(reader, writer, [&](std::chrono::nanoseconds) {
    return ++pages < 2;  // as a process that ends
  });
  EXPECT_EQ(pages, 2);
  EXPECT_EQ(sweep(sweeper).failure, "");
  EXPECT_EQ(count(), 10U);
  EXPECT_EQ(swept.deleted, 1990U);
}

TEST_P(ReservationTest, ASweepThatFailsSaysWhy) {
  order(R"({"_id": "b", "number": 2})");
  EXPECT_EQ(reserve("1", "\"a\""), State::made);
  clock.advance(25h);
  database.fail("find", 1, R"({"errorCode": 13})");
  EXPECT_THAT(sweep().failure, StartsWith("error 13 Unauthorized: Failing command "));
  EXPECT_EQ(sweep().deleted, 1U);
}

}  // namespace reservation_test
}  // namespace idproxy::id_store::test
