// {idproxy: "assign"} from its request to its answer, as an exchange handles it.

#include <gtest/gtest.h>

#include "support/exchange_script.hpp"
#include "support/lending_source.hpp"
#include "support/rule_set.hpp"
#include "support/turn_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace assign_test {

using namespace test;

const std::string kById = long_field("_id", 7);
const std::string kSession = doc_field("lsid", string_field("id", "s"));

std::string assign(const std::string& filter, const std::string& more = {},
                   const std::string& field = "number") {
  return op_msg(body(doc(string_field("idproxy", "assign") + string_field("ns", "shop.orders") +
                         string_field("field", field) + doc_field("filter", filter) + more +
                         string_field("$db", "admin"))));
}
std::string write(const std::string& filter, std::int64_t value, const std::string& more = {}) {
  const std::string missing = doc_field("number", bool_field("$exists", false));
  return op_msg(body(doc(string_field("findAndModify", "orders") +
                         doc_field("query", array_field("$and", {doc(filter), doc(missing)})) +
                         doc_field("update", doc_field("$set", long_field("number", value))) +
                         bool_field("new", true) +
                         doc_field("fields", int_field("_id", 0) + int_field("number", 1)) + more +
                         string_field("$db", "shop"))));
}
const std::string kLocal = doc_field("readConcern", string_field("level", "local"));
std::string read(const std::string& filter, const std::string& more = {},
                 const std::string& concern = kLocal) {
  return op_msg(body(doc(string_field("find", "orders") + doc_field("filter", filter) +
                         doc_field("projection", int_field("number", 1) + int_field("_id", 1)) +
                         int_field("limit", 1) + bool_field("singleBatch", true) + concern + more +
                         string_field("$db", "shop"))));
}
/// Waits for what was written before, on the shard that has the document.
std::string confirms(const std::string& more = {}) {
  const std::string nothing = doc_field("q", doc_field("_id", int_field("$eq", 1))) +
                              doc_field("u", doc_field("$setOnInsert", int_field("_", 0))) +
                              bool_field("multi", true);
  return op_msg(body(doc(string_field("update", "orders") + array_field("updates", {doc(nothing)}) +
                         more + string_field("$db", "shop"))));
}
std::string modified_to(const std::string& fields) {
  return doc_field("lastErrorObject", int_field("n", 1) + bool_field("updatedExisting", true)) +
         doc_field("value", fields) + ok();
}
const std::string kNothing =
    doc_field("lastErrorObject", int_field("n", 0) + bool_field("updatedExisting", false)) +
    element(bson::Type::null, "value", "") + ok();
std::string cursor(const std::vector<std::string>& documents) {
  return doc_field("cursor", long_field("id", 0) + array_field("firstBatch", documents)) + ok();
}
std::string answer(const std::string& fields) {
  return doc(fields + ok());
}
const std::string kNone = element(bson::Type::null, "value", "") + bool_field("modified", false);

class AssignExchange : public ::testing::Test {
 protected:
  AssignExchange() : world_(rule_set_of(rule("shop.o*", "number"), rule("shop.o*", "code"))) {}
  ExchangeWorld world_;
};

TEST_F(AssignExchange, SetsTheValueOfADocumentThatLacksIt) {
  EXPECT_EQ(world_.request(assign(kById, kSession)), ActionKind::send);
  EXPECT_EQ(world_.bytes(), read(kById, kSession));
  EXPECT_EQ(world_.reply_with(cursor({doc("")})), ActionKind::send);
  EXPECT_EQ(world_.bytes(), write(kById, 1, kSession));
  EXPECT_TRUE(world_.exchange->awaits_reply());
  EXPECT_EQ(world_.reply_with(modified_to(long_field("number", 1))), ActionKind::reply);
  EXPECT_EQ(world_.body(), answer(long_field("value", 1) + bool_field("modified", true)));
  EXPECT_EQ(world_.counts(), "assigned=1");
}

TEST_F(AssignExchange, DrawsNothingForADocumentThatHasAValueOrIsNotThere) {
  const std::string concern = doc_field("writeConcern", string_field("w", "majority"));
  const auto told = [&](const std::string& found, const std::string& confirmed = {}) {
    world_.request(assign(kById, concern));
    const ActionKind kind = world_.reply_with(found);
    EXPECT_EQ(kind, confirmed.empty() ? ActionKind::reply : ActionKind::send);
    if (kind == ActionKind::send) {
      EXPECT_EQ(world_.bytes(), confirms(concern));
      EXPECT_EQ(world_.reply_with(confirmed), ActionKind::reply);
    }
    const std::string body = world_.body();
    world_.exchange->release(world_.workspace);
    return body;
  };
  const std::string five =
      long_field("value", 5) + bool_field("modified", false) + bool_field("found", true);
  const std::string stored = cursor({doc(int_field("_id", 1) + long_field("number", 5))});
  EXPECT_EQ(told(stored, n(0) + ok()), answer(five));
  const std::string late = doc_field("writeConcernError", int_field("code", 64));
  EXPECT_EQ(told(stored, n(0) + late + ok()), doc(five + ok() + late));
  const std::string null = element(bson::Type::null, "number", "");
  EXPECT_EQ(told(cursor({doc(int_field("_id", 1) + null)}), n(0) + ok()),
            answer(kNone + bool_field("found", true)));
  EXPECT_EQ(told(cursor({})), answer(kNone + bool_field("found", false)));
  EXPECT_EQ(world_.counts(), "");
}

TEST_F(AssignExchange, SaysWhatItFindsIfAnotherWasFirst) {
  const auto told = [this](const std::string& found) {
    world_.request(assign(kById));
    world_.reply_with(cursor({doc("")}));
    EXPECT_EQ(world_.reply_with(kNothing), ActionKind::send);
    EXPECT_EQ(world_.bytes(), read(kById));
    EXPECT_EQ(world_.reply_with(found), ActionKind::reply);
    const std::string body = world_.body();
    world_.exchange->release(world_.workspace);
    return body;
  };
  EXPECT_EQ(
      told(cursor({doc(int_field("_id", 1) + long_field("number", 5))})),
      answer(long_field("value", 5) + bool_field("modified", false) + bool_field("found", true)));
  EXPECT_EQ(told(cursor({})), answer(kNone + bool_field("found", false)));
  EXPECT_NE(told(cursor({doc("")})).find("has changed meanwhile"), std::string::npos);
}

/// A failover could undo a value that is told before, and give its number to another document.
TEST_F(AssignExchange, TellsNoNumberInTurnThatAMajorityMayLack) {
  Rule in_turn = rule("shop.o*", "number");
  in_turn.strategy_name = "gapless";
  in_turn.strategy = std::make_shared<TurnRule>(std::make_shared<Turns>());
  world_.reload(rule_set_of(std::move(in_turn)));
  world_.request(assign(kById, doc_field("writeConcern", int_field("w", 1))));
  EXPECT_EQ(world_.reply_with(cursor({doc(int_field("_id", 1) + long_field("number", 5))})),
            ActionKind::send);
  EXPECT_EQ(world_.bytes(), confirms(doc_field("writeConcern", string_field("w", "majority") +
                                                                   bool_field("j", true))));
  world_.exchange->release(world_.workspace);
}

TEST_F(AssignExchange, TellsNoValueOfWhichTheServerDoesNotSayThatItIsDurable) {
  const std::string stored = cursor({doc(int_field("_id", 1) + long_field("number", 5))});
  for (const std::string& reply :
       {n(0) + write_errors({write_error(0, 61)}) + ok(), int_field("n", 0)}) {
    world_.request(assign(kById));
    world_.reply_with(stored);
    const ActionKind kind = world_.reply_with(reply);
    EXPECT_TRUE(kind == ActionKind::close ||
                world_.body().find("does not say whether") != std::string::npos);
    world_.exchange->release(world_.workspace);
  }
}

TEST_F(AssignExchange, TellsOfAFailedWriteConcernInEachAnswerAfterTheWrite) {
  const std::string late = doc_field("writeConcernError", int_field("code", 64));
  for (const std::string& found : {cursor({doc("")}), cursor({})}) {
    world_.request(assign(kById));
    world_.reply_with(cursor({doc("")}));
    world_.reply_with(kNothing + late);
    EXPECT_EQ(world_.reply_with(found), ActionKind::reply);
    EXPECT_NE(world_.body().find(late), std::string::npos);
    world_.exchange->release(world_.workspace);
  }
}

/// The write has sent commands with request ids of their own.
TEST_F(AssignExchange, ReadsWithTheClientsRequestIdAfterARetry) {
  world_.request(assign(kById));
  world_.reply_with(cursor({doc("")}));
  ActionKind kind = world_.reply_with(ok(0) + int_field("code", 11000) +
                                      doc_field("keyPattern", int_field("number", 1)) +
                                      doc_field("keyValue", long_field("number", 1)));
  if (kind == ActionKind::wait) kind = world_.resume();
  ASSERT_EQ(kind, ActionKind::send);
  ASSERT_EQ(world_.reply_with(kNothing), ActionKind::send);
  EXPECT_EQ(wire::read_header(as_bytes(world_.bytes())).request_id, world_.exchange->request_id());
  EXPECT_EQ(world_.bytes(), read(kById));
}

TEST_F(AssignExchange, DrawsNothingWhereAScalarIsInTheWay) {
  world_.reload(rule_set_of(rule("shop.o*", "a.b")));
  world_.request(assign(kById, "", "a.b"));
  EXPECT_EQ(world_.reply_with(cursor({doc(int_field("a", 5))})), ActionKind::reply);
  EXPECT_NE(world_.body().find("'a' is not an object"), std::string::npos);
  EXPECT_EQ(world_.counts(), "");
}

TEST_F(AssignExchange, BeginsATransactionWithItsFirstRead) {
  const std::string transaction = kSession + kTransaction;
  const std::string begin = bool_field("startTransaction", true) +
                            doc_field("readConcern", string_field("level", "snapshot"));
  world_.request(assign(kById, transaction + begin));
  EXPECT_EQ(world_.bytes(), read(kById, transaction + begin, ""));
  world_.reply_with(cursor({doc("")}));
  EXPECT_EQ(world_.bytes(), write(kById, 1, transaction));
  world_.reply_with(kNothing);
  EXPECT_EQ(world_.bytes(), read(kById, transaction, ""));
}

TEST_F(AssignExchange, GivesAnUnusedValueBack) {
  const auto lent = std::make_shared<Lending>();
  lent->at_hand = 1;
  Rule lends = rule("shop.o*", "number");
  lends.strategy = shared_source<LendingSource>(lent);
  world_.reload(rule_set_of(std::move(lends)));
  world_.request(assign(kById));
  world_.reply_with(cursor({doc("")}));
  EXPECT_EQ(world_.reply_with(kNothing + doc_field("writeConcernError", int_field("code", 64))),
            ActionKind::send);
  world_.reply_with(cursor({}));
  EXPECT_NE(world_.body().find("writeConcernError"), std::string::npos);
  world_.exchange->release(world_.workspace);
  EXPECT_EQ(lent->back, std::vector<std::int64_t>{1});
}

TEST_F(AssignExchange, AsksForTheIndexesOfAnotherFilter) {
  const std::string sku = string_field("sku", "x");
  const auto index = [](const std::string& key, const std::string& more) {
    return doc(doc_field("key", key) + string_field("name", "i") + more);
  };
  const std::string unique = bool_field("unique", true);
  const std::string by_sku = int_field("sku", 1);
  const auto after = [&](const std::string& found) {
    EXPECT_EQ(world_.request(assign(sku, kSession)), ActionKind::send);
    EXPECT_EQ(
        world_.bytes(),
        op_msg(body(doc(string_field("listIndexes", "orders") +
                        bool_field("includeBuildUUIDs", true) + string_field("$db", "shop")))));
    const ActionKind kind = world_.reply_with(cursor({found}));
    world_.exchange->release(world_.workspace);
    return kind;
  };
  EXPECT_EQ(after(index(by_sku, unique)), ActionKind::send);
  EXPECT_EQ(after(index(by_sku, "")), ActionKind::reply);
  EXPECT_EQ(after(index(by_sku + int_field("b", 1), unique)), ActionKind::reply);
  EXPECT_EQ(after(index(by_sku, unique + doc_field("partialFilterExpression", ""))),
            ActionKind::reply);
  EXPECT_EQ(after(index(by_sku, unique + doc_field("collation", string_field("locale", "de")))),
            ActionKind::reply);
  // Each of the two may be in another element of one array.
  const std::string xy = int_field("a.x", 1) + int_field("a.y", 4);
  world_.request(assign(xy));
  EXPECT_EQ(world_.reply_with(cursor({index(xy, unique)})), ActionKind::reply);
}

TEST_F(AssignExchange, BelievesNoReplyThatDoesNotAddUp) {
  const auto after = [this](const std::string& reply) {
    world_.request(assign(kById));
    world_.reply_with(cursor({doc("")}));
    const ActionKind kind = world_.reply_with(reply);
    world_.exchange->release(world_.workspace);
    return kind;
  };
  EXPECT_EQ(after(modified_to(int_field("x", 1))), ActionKind::close);
  EXPECT_EQ(after(ok(0) + int_field("code", 13) + string_field("errmsg", "no")), ActionKind::relay);
  // Whatever the server says has no place in an answer of the proxy, or is what the client gets.
  for (const std::string& reply : {ok(), doc_field("value", "") + ok(), kNothing.substr(1)}) {
    const ActionKind kind = after(reply);
    EXPECT_TRUE(kind == ActionKind::close || kind == ActionKind::send) << static_cast<int>(kind);
  }
}

TEST_F(AssignExchange, FailsWithoutARule) {
  EXPECT_EQ(world_.request(assign(kById, "", "none")), ActionKind::reply);
  EXPECT_NE(world_.body().find("fields that rules fill there: number, code"), std::string::npos);
}

}  // namespace assign_test
}  // namespace idproxy::rewrite
