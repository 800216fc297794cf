// What an exchange does with the command bulkWrite.

#include "rewrite/bulk_write.hpp"

#include <cmath>

#include "idproxy/ids/guard.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "support/bulk_writes.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_reservations.hpp"
#include "support/fake_store.hpp"
#include "support/lending_source.hpp"
#include "support/turn_source.hpp"

namespace idproxy::rewrite {
namespace bulk_write_test {

using namespace test;
using namespace std::chrono_literals;

const std::string kErrorsOnly = bool_field("errorsOnly", true);
const std::vector<std::string> kOrders = {ns_entry("shop.orders")};

/// An `_id` for shop.*, a number for crm.*; each source counts from 1.
std::shared_ptr<const RuleSet> two_rules() {
  return rule_set_of(rule("shop.*", "_id"), rule("crm.*", "number"));
}
std::string numbered(std::int32_t i, std::int64_t number) {
  return doc(int_field("x", i) + long_field("number", number));
}
/// Inserts of documents without values into the first collection.
std::vector<std::string> inserts(std::int32_t from, std::int32_t to) {
  std::vector<std::string> ops;
  for (std::int32_t i = from; i < to; ++i) ops.push_back(insert_op(0, nth(i)));
  return ops;
}
std::optional<std::int64_t> code(const ExchangeWorld& world) {
  const std::string body = world.body();
  const auto found = bson::find(as_bytes(body), "code");
  return found ? found->as_integer() : std::nullopt;
}

// ---- where values go -------------------------------------------------------------------------

TEST(BulkWrite, GivesValuesInTheCollectionsWithRules) {
  const std::vector<std::string> ns_info = {ns_entry("shop.orders"), ns_entry("plain.notes"),
                                            ns_entry("crm.people")};
  const std::vector<std::string> ops = {insert_op(0, nth(0)), insert_op(1, nth(1)),
                                        insert_op(2, nth(2)), delete_op(0, 3),
                                        insert_op(0, nth(4)), insert_op(0, nth(5, 77))};
  const std::vector<std::string> stored = {insert_op(0, nth(0, 1)),      insert_op(1, nth(1)),
                                           insert_op(2, numbered(2, 1)), delete_op(0, 3),
                                           insert_op(0, nth(4, 2)),      insert_op(0, nth(5, 77))};
  for (const std::uint32_t flags : {0U, wire::flag::kChecksumPresent}) {
    for (const BulkForm form : kBulkForms) {
      SCOPED_TRACE(static_cast<int>(form));
      ExchangeScript(two_rules)
          .request(bulk(form, kTxnNumber, ops, ns_info, flags))
          .sends(bulk_sent(kTxnNumber, stored, ns_info, "", flags))
          .reply(bulk_reply({.inserted = 5, .deleted = 1},
                            {well(0), well(1), well(2), well(3), well(4), well(5)}))
          .relays()
          .counts("assigned=3")
          .play();
    }
  }
}

TEST(BulkWrite, GivesUpsertsValues) {
  ExchangeScript([] { return rule_set_of(rule("crm.*", "number")); })
      .request(bulk(BulkForm::sequences, "",
                    {upsert_op(1, 0), upsert_op(0, 1), insert_op(0, nth(2)), upsert_op(0, 3)},
                    {ns_entry("crm.people"), ns_entry("shop.orders")}))
      .sends(bulk_sent("",
                       {upsert_op(1, 0), upsert_op(0, 1, long_field("number", 1)),
                        insert_op(0, numbered(2, 2)), upsert_op(0, 3, long_field("number", 3))},
                       {ns_entry("crm.people"), ns_entry("shop.orders")}))
      .reply(bulk_reply(
          {.inserted = 1, .upserted = 3},
          {upserted_result(0, 5), upserted_result(1, 6), well(2), upserted_result(3, 7)}))
      .relays()
      .counts("assigned=3")
      .play();
}

/// What the exchange does with an insert into the collection at this position of two.
ActionKind action_at(ExchangeWorld& world, const std::string& position) {
  const std::string op = doc(position + doc_field("document", int_field("x", 0)));
  return world.request(
      bulk(BulkForm::sequences, "", {op}, {ns_entry("plain.notes"), ns_entry("shop.orders")}));
}

TEST(BulkWrite, ReadsPositionsAsTheServerDoes) {
  const auto value = long_field("_id", 1);
  for (const std::string& second :
       {int_field("insert", 1), long_field("insert", 1), double_field("insert", 1.9)}) {
    ExchangeWorld world(two_rules());
    EXPECT_EQ(action_at(world, second), ActionKind::send);
    EXPECT_NE(world.bytes().find(value), std::string::npos);
  }
  const auto decimal = element(bson::Type::decimal128, "insert", std::string(16, '\0'));
  for (const std::string& unclear : {decimal, double_field("insert", std::nan(""))}) {
    ExchangeWorld world(two_rules());
    EXPECT_EQ(action_at(world, unclear), ActionKind::reply);
    EXPECT_EQ(code(world), 96);
    EXPECT_EQ(world.counts(), "");
  }
  for (const std::string& other :
       {int_field("insert", 0), double_field("insert", -0.5), int_field("insert", 2),
        int_field("insert", -1), long_field("insert", std::int64_t{1} << 32),
        double_field("insert", 1e300), double_field("insert", -1), bool_field("insert", true),
        string_field("insert", "1")}) {
    ExchangeWorld world(two_rules());
    EXPECT_EQ(action_at(world, other), ActionKind::relay);
    EXPECT_EQ(world.counts(), "");
  }
}

TEST(BulkWrite, LeavesWhatTheServerWillRefuse) {
  const std::string good = insert_op(0, nth(0));
  const std::string document = doc_field("document", int_field("x", 1));
  for (const std::string& bad : {
           doc(int_field("replace", 0) + document),
           doc(int_field("insert", 0)),
           doc(int_field("insert", 0) + document + document),
           doc(int_field("insert", 0) + array_field("document", {})),
           doc(document + int_field("insert", 0)),
           doc(),
           doc(int_field("update", 0) + bool_field("upsert", true)),
       }) {
    ExchangeWorld world(two_rules());
    for (const auto& ops : {std::vector{good, bad}, std::vector{bad, good}}) {
      EXPECT_EQ(world.request(bulk(BulkForm::sequences, "", ops, kOrders)), ActionKind::relay);
    }
    EXPECT_EQ(world.counts(), "");
  }
  const std::string fields = int_field("bulkWrite", 1) + string_field("$db", "admin");
  const std::string ops = sequence("ops", {good});
  const std::string ns_info = sequence("nsInfo", kOrders);
  const std::string ops_array = array_field("ops", {good});
  const std::string ns_array = array_field("nsInfo", kOrders);
  for (const std::string& sections : {
           body(doc(fields)) + ns_info,
           body(doc(fields)) + ops,
           body(doc(fields)),
           body(doc(fields)) + ops + ns_info + ns_info,
           body(doc(fields)) + ops + ops + ns_info,
           body(doc(fields + ns_array)) + ops + ns_info,
           body(doc(fields + ns_array + ns_array)) + ops,
           body(doc(fields + ops_array + ops_array)) + ns_info,
           body(doc(fields + ops_array)) + ops + ns_info,
           body(doc(fields + int_field("bulkWrite", 1))) + ops + ns_info,
           body(doc(fields)) + ops + ns_info + sequence("documents", {}),
           body(doc(fields)) + ops + sequence("nsInfo", {doc(int_field("ns", 1))}),
           body(doc(fields)) + ops + sequence("nsInfo", {doc()}),
           body(doc(fields)) + ops + sequence("nsInfo", {}),
           body(doc(fields + element(bson::Type::document, "ops", doc(doc_field("0", ""))))) +
               ns_info,
       }) {
    ExchangeWorld world(two_rules());
    EXPECT_EQ(world.request(op_msg(sections)), ActionKind::relay);
    EXPECT_EQ(world.counts(), "");
  }
}

TEST(BulkWrite, RefusesMoreCollectionsThanItLooksUp) {
  std::vector<std::string> ns_info(10'000, ns_entry("plain.notes"));
  ns_info[1] = ns_entry("shop.orders");
  ExchangeWorld world(two_rules());
  const std::vector<std::string> ops = {insert_op(1, nth(0))};
  EXPECT_EQ(world.request(bulk(BulkForm::arrays, "", ops, ns_info)), ActionKind::send);
  ns_info.push_back(ns_entry("plain.notes"));
  EXPECT_EQ(world.request(bulk(BulkForm::arrays, "", ops, ns_info)), ActionKind::reply);
  EXPECT_EQ(code(world), 96);
}

TEST(BulkWrite, RefusesKeysOfAnArrayThatMongodMustSee) {
  const std::string op = insert_op(0, nth(0));
  const std::string ops =
      element(bson::Type::array, "ops", doc(element(bson::Type::document, "1", op)));
  ExchangeWorld world(two_rules());
  EXPECT_EQ(world.request(
                op_msg(body(doc(int_field("bulkWrite", 1) + ops + string_field("$db", "admin"))) +
                       sequence("nsInfo", kOrders))),
            ActionKind::reply);
  EXPECT_EQ(code(world), 96);
  EXPECT_EQ(world.counts(), "");
}

TEST(BulkWrite, RefusesUpsertsWhereTheRuleDoes) {
  auto strict = rule("crm.*", "_id");
  strict.upserts = Upserts::refuse;
  ExchangeWorld world(rule_set_of(rule("shop.*", "_id"), strict));
  const std::vector<std::string> ns_info = {ns_entry("shop.orders"), ns_entry("crm.people")};
  const auto of = [&](const std::string& op) {
    return bulk(BulkForm::sequences, "", {insert_op(0, nth(0)), op}, ns_info);
  };
  EXPECT_EQ(world.request(of(insert_op(1, nth(1)))), ActionKind::send);
  EXPECT_EQ(world.request(of(upsert_op(0, 1))), ActionKind::send);
  EXPECT_EQ(world.request(of(upsert_op(1, 1))), ActionKind::send) << "it can get a value";
  const std::string older = doc_field("_id", int_field("$lt", 5));
  EXPECT_EQ(world.request(of(doc(int_field("update", 1) + doc_field("filter", older) +
                                 doc_field("updateMods", doc_field("$set", int_field("x", 1))) +
                                 bool_field("upsert", true)))),
            ActionKind::reply);
  EXPECT_EQ(code(world), 96);
}

TEST(BulkWrite, RefusesValuesThatMustBeReserved) {
  auto reserving = rule("crm.*", "number");
  reserving.id_strategy = shared_source<CountingSource>();
  reserving.reserve.emplace();
  const auto store = std::make_shared<ReservingStore>(std::make_shared<FakeReservations>());
  ExchangeWorld world(std::make_shared<const RuleSet>(
      std::vector<Rule>{rule("shop.*", "_id"), reserving}, "idproxy", store));
  const std::vector<std::string> ns_info = {ns_entry("shop.orders"), ns_entry("crm.people")};
  const auto of = [&](const std::string& document) {
    return bulk(BulkForm::sequences, "", {insert_op(0, nth(0)), insert_op(1, document)}, ns_info);
  };
  for (const std::string& document : {nth(1), numbered(1, 5)}) {  // its own is reserved, too
    EXPECT_EQ(world.request(of(document)), ActionKind::reply);
    EXPECT_EQ(code(world), 96);
  }
  EXPECT_EQ(world.request(
                bulk(BulkForm::sequences, "", {insert_op(0, nth(0)), delete_op(1, 1)}, ns_info)),
            ActionKind::send);
}

// ---- duplicates ------------------------------------------------------------------------------

TEST(BulkWrite, UnorderedDuplicatesGoAgain) {
  const std::vector<std::string> ns_info = {ns_entry("shop.orders"), ns_entry("crm.people")};
  const std::string options = kUnordered + kTxnNumber;
  ExchangeScript(two_rules)
      .request(bulk(
          BulkForm::turned_arrays, options,
          {insert_op(0, nth(0)), insert_op(1, nth(1)), insert_op(0, nth(2)), insert_op(1, nth(3))},
          ns_info))
      .sends(bulk_sent(options,
                       {insert_op(0, nth(0, 1)), insert_op(1, numbered(1, 1)),
                        insert_op(0, nth(2, 2)), insert_op(1, numbered(3, 2))},
                       ns_info))
      .reply(bulk_reply({.errors = 2, .inserted = 2},
                        {taken(0, {"_id"}), well(1), well(2), taken(3, {"number"}, "crm.people")}))
      .sends(bulk_sent(options, {insert_op(0, nth(0, 3)), insert_op(1, numbered(3, 3))}, ns_info,
                       numbers_field("stmtIds", {0, 3})))
      .reply(bulk_reply({.errors = 1, .inserted = 1}, {well(0), taken(1, {"mail"}, "crm.people")}))
      .replies(bulk_reply({.errors = 1, .inserted = 3},
                          {well(0), well(1), well(2), taken(3, {"mail"}, "crm.people")}))
      .counts("assigned=4 resent=2 cured=1 foreign=1")
      .play();
}

TEST(BulkWrite, OrderedDuplicatesGoAgainWithThoseBehindThem) {
  ExchangeScript(two_rules)
      .request(bulk(BulkForm::sequences, "", inserts(0, 3), kOrders))
      .sends(bulk_sent(
          "", {insert_op(0, nth(0, 1)), insert_op(0, nth(1, 2)), insert_op(0, nth(2, 3))}, kOrders))
      .reply(bulk_reply({.errors = 1, .inserted = 1}, {well(0), taken(1, {"_id"})}))
      .sends(bulk_sent("", {insert_op(0, nth(1, 4)), insert_op(0, nth(2, 3))}, kOrders))
      .reply(bulk_reply({.inserted = 2}, {well(0), well(1)}))
      .replies(bulk_reply({.inserted = 3}, {well(0), well(1), well(2)}))
      .counts("assigned=3 resent=1 cured=1")
      .play();
}

TEST(BulkWrite, AForeignDuplicateIsRelayed) {
  ExchangeScript(two_rules)
      .request(bulk(BulkForm::sequences, kUnordered, inserts(0, 2), kOrders))
      .sends(bulk_sent(kUnordered, {insert_op(0, nth(0, 1)), insert_op(0, nth(1, 2))}, kOrders))
      .reply(bulk_reply({.errors = 1, .inserted = 1}, {well(0), taken(1, {"mail"})}))
      .relays()
      .counts("assigned=2 foreign=1")
      .play();
}

TEST(BulkWrite, ADuplicateInATransactionStartsItAgain) {
  const std::string transient =
      ok(0) +
      string_field("errmsg",
                   "mongo-idproxy: the value generated for field '_id' of shop.orders is taken; "
                   "run the transaction again") +
      int_field("code", 112) + string_field("codeName", "WriteConflict") +
      texts_field("errorLabels", {"TransientTransactionError"});
  ExchangeScript(two_rules)
      .request(bulk(BulkForm::sequences, kTransaction, inserts(0, 1), kOrders))
      .sends(bulk_sent(kTransaction, {insert_op(0, nth(0, 1))}, kOrders))
      .reply(bulk_reply({.errors = 1}, {taken(0, {"_id"})}))
      .replies(transient)
      .counts("assigned=1 transient=1")
      .play();
}

TEST(BulkWrite, UnacknowledgedItIsSentOnce) {
  const std::string options =
      kUnordered + kErrorsOnly + doc_field("writeConcern", int_field("w", 0));
  ExchangeWorld world(two_rules());
  EXPECT_EQ(world.request(bulk(BulkForm::sequences, options, inserts(0, 1), kOrders,
                               wire::flag::kMoreToCome)),
            ActionKind::send);
  EXPECT_EQ(world.bytes(),
            bulk_sent(options, {insert_op(0, nth(0, 1))}, kOrders, "", wire::flag::kMoreToCome));
  EXPECT_EQ(world.counts(), "assigned=1 unacknowledged=1");
}

TEST(BulkWrite, ADocumentThatCannotTakeItsValueHasItsOwnError) {
  const std::string blocked = doc(string_field("a", "text"));
  ExchangeScript([] { return rule_set_of(rule("shop.*", "a.b")); })
      .request(bulk(BulkForm::sequences, kUnordered, {insert_op(0, blocked), insert_op(0, doc())},
                    kOrders))
      .sends(bulk_sent(kUnordered,
                       {insert_op(0, text_of(refused_document())),
                        insert_op(0, doc(doc_field("a", long_field("b", 1))))},
                       kOrders))
      .reply(bulk_reply({.errors = 1, .inserted = 1},
                        {failed(0, 53, string_field("errmsg", "no array")), well(1)}))
      .replies(bulk_reply(
          {.errors = 1, .inserted = 1},
          {failed(0, 28,
                  string_field("errmsg",
                               "mongo-idproxy: cannot create field 'a.b': 'a' is of type string, "
                               "not object")),
           well(1)}))
      .counts("assigned=1")
      .play();
}

// ---- results in several batches --------------------------------------------------------------

const std::string kLsid = doc_field("lsid", int_field("id", 1));

/// The proxy's getMore.
std::string get_more(std::int64_t cursor, const std::string& kept) {
  return op_msg(
      body(doc(long_field("getMore", cursor) + string_field("collection", "$cmd.bulkWrite") + kept +
               string_field("$db", "admin"))));
}

TEST(BulkWrite, FetchesTheOtherResults) {
  const std::string options = kUnordered + kLsid + kTxnNumber;
  const std::vector<std::string> first = {insert_op(0, nth(0, 1)), insert_op(0, nth(1, 2)),
                                          insert_op(0, nth(2, 3))};
  ExchangeScript(two_rules)
      .request(bulk(BulkForm::sequences, options, inserts(0, 3), kOrders))
      .sends(bulk_sent(options, first, kOrders))
      .reply(bulk_reply({.errors = 2, .inserted = 1}, {taken(0, {"_id"})}, 99))
      .sends(get_more(99, kLsid))
      .reply(more_results(99, {}))
      .sends(get_more(99, kLsid))
      .reply(more_results(0, {well(1), taken(2, {"_id"})}))
      .sends(bulk_sent(options, {insert_op(0, nth(0, 4)), insert_op(0, nth(2, 5))}, kOrders,
                       numbers_field("stmtIds", {0, 2})))
      .reply(bulk_reply({.errors = 1, .inserted = 1}, {well(0)}, 7))
      .sends(get_more(7, kLsid))
      .reply(more_results(0, {taken(1, {"mail"})}))
      .replies(bulk_reply({.errors = 1, .inserted = 2}, {well(0), well(1), taken(2, {"mail"})}))
      .counts("assigned=3 resent=2 cured=1 foreign=1")
      .play_once();
}

TEST(BulkWrite, AJoinedReplyIsTheClients) {
  ExchangeScript(two_rules)
      .request(bulk(BulkForm::sequences, kTransaction + kLsid, inserts(0, 2), kOrders))
      .sends(bulk_sent(kTransaction + kLsid, {insert_op(0, nth(0, 1)), insert_op(0, nth(1, 2))},
                       kOrders))
      .reply(bulk_reply({.errors = 1, .inserted = 1}, {well(0)}, 99))
      .sends(get_more(99, kTransaction + kLsid))
      .reply(more_results(0, {taken(1, {"mail"})}))
      .replies(bulk_reply({.errors = 1, .inserted = 1}, {well(0), taken(1, {"mail"})}))
      .counts("assigned=2 foreign=1")
      .play_once();
}

/// Options that the proxy cannot read: the reply to the bulkWrite itself is the client's.
TEST(BulkWrite, OfWhatIsSentOnlyOnceTheClientFetchesTheOtherResults) {
  for (const std::string& options :
       {numbers_field("stmtIds", {0, 1, 2}), string_field("ordered", "no")}) {
    const std::string all = kTxnNumber + options;
    ExchangeScript(two_rules)
        .request(bulk(BulkForm::sequences, all, inserts(0, 2), kOrders))
        .sends(bulk_sent(all, {insert_op(0, nth(0, 1)), insert_op(0, nth(1, 2))}, kOrders))
        .reply(bulk_reply({.errors = 1, .inserted = 1}, {well(0)}, 99))
        .relays()
        .counts("assigned=2")
        .play_once();
  }
}

TEST(BulkWrite, ClosesWhereOtherResultsDoNotCome) {
  const std::vector<std::string> many(100'000, well(0));
  for (const std::string& bad : {
           more_results(98, {}),
           more_results(0, {}),  // so that one is missing
           more_results(0, {well(0)}),
           more_results(0, {taken(2, {"_id"})}),
           more_results(99, many),
           results_cursor(0, "firstBatch", {taken(1, {"_id"})}) + ok(),
           results_cursor(0, "nextBatch", {taken(1, {"_id"})}),
           failure(43, "cursor not found"),
           ok(),
           doc_field("cursor", int_field("id", 0) + array_field("nextBatch", {})) + ok(),
           doc_field("cursor", long_field("id", 0) + numbers_field("nextBatch", {1})) + ok(),
           doc_field("cursor", long_field("id", 0) + doc_field("nextBatch", "")) + ok(),
           string_field("cursor", "0") + ok(),
       }) {
    ExchangeWorld world(two_rules());
    ASSERT_EQ(world.request(bulk(BulkForm::sequences, kUnordered, inserts(0, 2), kOrders)),
              ActionKind::send);
    ASSERT_EQ(world.reply_with(bulk_reply({.errors = 1, .inserted = 1}, {well(0)}, 99)),
              ActionKind::send);
    EXPECT_EQ(world.reply_with(bad), ActionKind::close) << bad.substr(0, 200);
  }
}

TEST(BulkWrite, AReplyThatDoesNotAddUpIsTheClients) {
  for (const std::string& bad : {
           bulk_reply({.errors = 1, .inserted = 2}, {taken(0, {"_id"}), well(1)}),
           bulk_reply({.errors = 1}, {taken(0, {"_id"}), well(1)}),
           bulk_reply({.errors = 2, .inserted = 1}, {taken(0, {"_id"}), well(1)}),
           bulk_reply({.errors = 1, .inserted = 1}, {}),
           bulk_reply({.errors = 1, .inserted = 1}, {well(1), taken(0, {"_id"})}),
           bulk_reply({.errors = 1, .inserted = 1}, {taken(0, {"_id"}), well(2)}),
           bulk_reply({.errors = 1, .inserted = 1}, {taken(-1, {"_id"}), well(1)}),
           bulk_reply({.errors = 1, .inserted = 1}, {taken(0, {"_id"}), upserted_result(1, 5)}),
           bulk_reply({.errors = 1, .inserted = 1, .upserted = 1}, {taken(0, {"_id"}), well(1)}),
           int_field("nErrors", 1) + int_field("nInserted", 1) + ok(),
           doc_field("cursor", long_field("id", 0) + array_field("firstBatch", {well(7)})) +
               bulk_reply({.errors = 1, .inserted = 1}, {taken(0, {"_id"}), well(1)}),
           bulk_reply({.errors = 1, .inserted = 1}, {taken(0, {"_id"}), well(1)}) +
               doc_field("cursor", long_field("id", 0) + array_field("firstBatch", {well(7)})),
       }) {
    ExchangeWorld world(two_rules());
    ASSERT_EQ(world.request(bulk(BulkForm::sequences, kUnordered, inserts(0, 2), kOrders)),
              ActionKind::send);
    EXPECT_EQ(world.reply_with(bad), ActionKind::relay);
  }
}

// ---- upserts that find their documents -------------------------------------------------------

class BulkUpserts : public ::testing::Test {
 protected:
  ExchangeScript::Rules rules() {
    return [this] {
      lending = std::make_shared<Lending>();
      lending->at_hand = 100;
      auto number = rule("shop.*", "number");
      number.strategy = shared_source<LendingSource>(lending);
      return rule_set_of(std::move(number));
    };
  }
  static std::string value(std::int64_t number) { return long_field("number", number); }
  std::shared_ptr<Lending> lending;
};

TEST_F(BulkUpserts, GiveTheirValuesBack) {
  ExchangeScript(rules())
      .request(bulk(BulkForm::sequences, "", {upsert_op(0, 0), upsert_op(0, 1)}, kOrders))
      .sends(bulk_sent("", {upsert_op(0, 0, value(1)), upsert_op(0, 1, value(2))}, kOrders))
      .reply(bulk_reply({.upserted = 1, .modified = 1}, {upserted_result(0, 5), found_result(1)}))
      .relays()
      .counts("assigned=2")
      .play();
  ExchangeWorld world(rules()());
  ASSERT_EQ(
      world.request(bulk(BulkForm::sequences, "", {upsert_op(0, 0), upsert_op(0, 1)}, kOrders)),
      ActionKind::send);
  EXPECT_EQ(world.reply_with(bulk_reply({.upserted = 1, .modified = 1},
                                        {upserted_result(0, 5), found_result(1)})),
            ActionKind::relay);
  EXPECT_EQ(lending->back, std::vector<std::int64_t>{2});
}

TEST_F(BulkUpserts, NeedResultsThatTheClientDoesNotWant) {
  const std::vector<std::string> ops = {upsert_op(0, 0), upsert_op(0, 1), insert_op(0, nth(2))};
  const std::vector<std::string> sent = {upsert_op(0, 0, value(1)), upsert_op(0, 1, value(2)),
                                         insert_op(0, numbered(2, 3))};
  const std::string all = bulk_reply({.inserted = 1, .upserted = 1, .modified = 1},
                                     {upserted_result(0, 5), found_result(1), well(2)});
  const std::string hidden = bulk_reply({.inserted = 1, .upserted = 1, .modified = 1}, {});
  ExchangeScript(rules())
      .request(bulk(BulkForm::arrays, kErrorsOnly, ops, kOrders))
      .sends(bulk_sent("", sent, kOrders))
      .reply(all)
      .replies(hidden)
      .counts("assigned=3")
      .play();
  ExchangeWorld world(rules()());
  ASSERT_EQ(world.request(bulk(BulkForm::sequences, kErrorsOnly, ops, kOrders)), ActionKind::send);
  EXPECT_EQ(world.reply_with(all), ActionKind::reply);
  EXPECT_EQ(lending->back, std::vector<std::int64_t>{2});
}

TEST_F(BulkUpserts, NeedNoneIfNothingCanFindADocument) {
  ExchangeScript(rules())
      .request(bulk(BulkForm::sequences, kErrorsOnly, inserts(0, 1), kOrders))
      .sends(bulk_sent(kErrorsOnly, {insert_op(0, numbered(0, 1))}, kOrders))
      .reply(bulk_reply({.inserted = 1}, {}))
      .relays()
      .counts("assigned=1")
      .play();
}

TEST_F(BulkUpserts, UnacknowledgedNeedNoResults) {
  const std::string options =
      kUnordered + kErrorsOnly + doc_field("writeConcern", int_field("w", 0));
  ExchangeScript(rules())
      .request(bulk(BulkForm::sequences, options, {upsert_op(0, 0)}, kOrders))
      .sends(bulk_sent(options, {upsert_op(0, 0, value(1))}, kOrders))
      .reply(bulk_reply({}, {}))
      .relays()
      .counts("assigned=1")
      .play();
}

// ---- guards ----------------------------------------------------------------------------------

constexpr ids::CollectionUuid kOne{1};
constexpr ids::CollectionUuid kOther{2};

/// {collectionUUID: BinData(4, uuid)}
std::string uuid_field(const ids::CollectionUuid& uuid) {
  std::string value = i32(16) + '\4';
  return element(bson::Type::binary, "collectionUUID", value.append(uuid.begin(), uuid.end()));
}

/// A rule whose collections have a guard.
struct GuardedBulkWrite : testing::Test {
  void see(const ids::CollectionUuid& uuid) {
    guard->set({ids::GuardState::Kind::guarded, {}, uuid}, world.clock.monotonic());
  }
  std::shared_ptr<const RuleSet> rules() {
    store->guarding = guard;
    return std::make_shared<const RuleSet>(std::vector<Rule>{rule("shop.*", "_id")}, "idproxy",
                                           store);
  }

  std::shared_ptr<ids::Guard> guard = std::make_shared<ids::Guard>(0, "shop", "orders", nullptr);
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  ExchangeWorld world{rules()};
};

TEST_F(GuardedBulkWrite, NamesEachCollectionWithAGuard) {
  const auto entries = [](const ids::CollectionUuid& uuid) {
    return std::vector<std::string>{
        ns_entry("shop.orders", uuid_field(uuid)), ns_entry("plain.notes"),
        ns_entry("shop.bills", uuid_field(uuid)), ns_entry("shop.others", uuid_field(kOther)),
        ns_entry("shop.unused")};
  };
  const std::string options = kUnordered + kTxnNumber;
  see(kOne);
  EXPECT_EQ(
      world.request(bulk(
          BulkForm::sequences, options,
          {insert_op(0, nth(0)), insert_op(1, nth(1)), insert_op(2, nth(2)), insert_op(3, nth(3))},
          {ns_entry("shop.orders"), ns_entry("plain.notes"), ns_entry("shop.bills"),
           ns_entry("shop.others", uuid_field(kOther)), ns_entry("shop.unused")})),
      ActionKind::send);
  EXPECT_EQ(world.bytes(), bulk_sent(options,
                                     {insert_op(0, nth(0, 1)), insert_op(1, nth(1)),
                                      insert_op(2, nth(2, 2)), insert_op(3, nth(3, 3))},
                                     entries(kOne)));
  EXPECT_EQ(world.reply_with(bulk_reply({.errors = 1, .inserted = 3},
                                        {well(0), well(1), failed(2, 361), well(3)})),
            ActionKind::ask_store);
  see(kOther);
  EXPECT_EQ(world.answer(ids::Grant()), ActionKind::send);
  EXPECT_EQ(world.bytes().substr(16), bulk_sent(options, {insert_op(2, nth(2, 2))}, entries(kOther),
                                                numbers_field("stmtIds", {2}))
                                          .substr(16));
  EXPECT_EQ(world.reply_with(bulk_reply({.inserted = 1}, {well(0)})), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(bulk_reply({.inserted = 4}, {well(0), well(1), well(2), well(3)})));
  EXPECT_EQ(world.counts(), "assigned=3") << "no value was taken";
}

TEST_F(GuardedBulkWrite, WhatTheClientNamesIsBetweenItAndTheServer) {
  const std::string named = ns_entry("shop.orders", uuid_field(kOther));
  see(kOne);
  for (const BulkForm form : {BulkForm::sequences, BulkForm::arrays}) {
    EXPECT_EQ(world.request(bulk(form, "", {insert_op(0, nth(0))}, {named})), ActionKind::send);
    EXPECT_EQ(world.reply_with(bulk_reply({.errors = 1}, {failed(0, 361)})), ActionKind::relay);
    EXPECT_EQ(guard->state(world.clock.monotonic()).kind, ids::GuardState::Kind::guarded);
  }
  EXPECT_EQ(world.request(bulk(BulkForm::sequences, kUnordered,
                               {insert_op(0, nth(0)), insert_op(1, nth(1))},
                               {named, ns_entry("shop.bills")})),
            ActionKind::send);
  EXPECT_EQ(world.reply_with(bulk_reply({.errors = 2}, {failed(0, 361), failed(1, 361)})),
            ActionKind::ask_store);
  see(kOther);
  EXPECT_EQ(world.answer(ids::Grant()), ActionKind::send);
  EXPECT_EQ(world.bytes().substr(16), bulk_sent(kUnordered, {insert_op(1, nth(1, 4))},
                                                {named, ns_entry("shop.bills", uuid_field(kOther))})
                                          .substr(16));
  EXPECT_EQ(world.reply_with(bulk_reply({.inserted = 1}, {well(0)})), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(bulk_reply({.errors = 1, .inserted = 1}, {failed(0, 361), well(1)})));
}

// ---- numbers without gaps --------------------------------------------------------------------

TEST(BulkWrite, OpsWithNumbersWithoutGapsGoOneByOne) {
  const auto turns = std::make_shared<Turns>();
  const auto rules = [&] {
    turns->next = 7;
    turns->is_known = true;
    Rule sequenced = rule("shop.*", "number");
    sequenced.strategy_name = "gapless";
    sequenced.strategy = std::make_shared<TurnRule>(turns);
    return rule_set_of(std::move(sequenced));
  };
  const std::vector<std::string> ns_info = {ns_entry("shop.orders"), ns_entry("plain.notes")};
  const std::string own =
      bool_field("ordered", true) +
      doc_field("writeConcern", string_field("w", "majority") + bool_field("j", true));
  ExchangeScript(rules)
      .request(bulk(BulkForm::sequences, kUnordered,
                    {insert_op(0, nth(0)), insert_op(1, nth(1)), upsert_op(0, 2)}, ns_info))
      .sends(bulk_sent("", {insert_op(0, numbered(0, 7))}, ns_info, own))
      .reply(bulk_reply({.inserted = 1}, {well(0)}))
      .sends(bulk_sent("", {insert_op(1, nth(1))}, ns_info, own))
      .reply(bulk_reply({.inserted = 1}, {well(0)}))
      .sends(bulk_sent("", {upsert_op(0, 2, long_field("number", 8))}, ns_info, own))
      .reply(bulk_reply({.upserted = 1}, {upserted_result(0, 5)}))
      .replies(
          bulk_reply({.inserted = 2, .upserted = 1}, {well(0), well(1), upserted_result(2, 5)}))
      .counts("assigned=2")
      .in_parts()
      .play();
}

}  // namespace bulk_write_test
}  // namespace idproxy::rewrite
