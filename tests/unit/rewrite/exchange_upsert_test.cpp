// What an exchange does with updates and findAndModifies that have upserts.

#include "idproxy/rewrite/exchange.hpp"
#include "support/bulk_writes.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"
#include "support/lending_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_upsert_test {

using namespace test;
using namespace std::chrono_literals;

std::shared_ptr<const RuleSet> number() {
  return rule_set_of(rule("shop.*", "number"));
}
std::shared_ptr<const RuleSet> id_and_number() {
  return rule_set_of(rule("shop.*", "_id"), rule("shop.*", "number"));
}
std::string value(std::int64_t number) {
  return long_field("number", number);
}
const std::vector<std::string> kNumber = {"number"};

// ---- where values go -------------------------------------------------------------------------

TEST(Upserts, GetValuesInEachForm) {
  const std::vector<std::string> plain = {upsert(0), plain_update(1), upsert(2)};
  const std::vector<std::string> stored = {upsert(0, value(1)), plain_update(1),
                                           upsert(2, value(2))};
  for (const std::uint32_t flags : {0U, wire::flag::kChecksumPresent}) {
    for (const auto form : {update_sequence, update_array}) {
      ExchangeScript(number)
          .request(form(kTxnNumber, plain, flags))
          .sends(form(kTxnNumber, stored, flags))
          .reply(n(3) + upserted({{0, 5}, {2, 6}}) + modified(1) + ok())
          .relays()
          .counts("assigned=2")
          .play();
    }
  }
  const std::string first = sequence("updates", plain);
  ExchangeWorld world(number());
  ASSERT_EQ(world.request(op_msg(first + body(doc(update_fields())))), ActionKind::send);
  EXPECT_EQ(world.bytes(), op_msg(sequence("updates", stored) + body(doc(update_fields()))));
}

/// What is sent for one upsert with this update, by rules for these fields.
std::string sent(const std::vector<std::string>& fields, const std::string& update_element,
                 Assign assign = Assign::missing) {
  std::vector<Rule> rules;
  for (const std::string& field : fields) rules.push_back(rule("shop.*", field, assign));
  ExchangeWorld world(std::make_shared<const RuleSet>(std::move(rules), "idproxy"));
  const std::string statement =
      doc(doc_field("q", int_field("k", 1)) + update_element + bool_field("upsert", true));
  if (world.request(update_sequence("", {statement})) != ActionKind::send) return "not sent";
  const auto view = wire::OpMsgView::parse(as_bytes(world.bytes()));
  Statements statements(*WriteCommand::read(*view));
  return text_of(bson::find(*statements.next(), "u")->value);
}
std::string in_doc(std::string_view elements) {
  return doc_field("u", elements);
}

TEST(Upserts, GetTheirValuesThroughSetOnInsert) {
  const std::string set = doc_field("$set", int_field("x", 1));
  EXPECT_EQ(sent({"number"}, in_doc(set)), doc(set + doc_field("$setOnInsert", value(1))));
  EXPECT_EQ(sent({"a.b", "_id"}, in_doc(set)),
            doc(set + doc_field("$setOnInsert", long_field("a.b", 1) + long_field("_id", 1))));
  const std::string own = doc_field("$setOnInsert", int_field("y", 1));
  EXPECT_EQ(sent({"number"}, in_doc(own + set)),
            doc(doc_field("$setOnInsert", int_field("y", 1) + value(1)) + set));
  EXPECT_EQ(sent({"number"}, in_doc(doc_field("$setOnInsert", ""))),
            doc(doc_field("$setOnInsert", value(1))));
  // Only the field that is missing.
  EXPECT_EQ(sent({"number", "y"}, in_doc(own)),
            doc(doc_field("$setOnInsert", int_field("y", 1) + value(1))));
}

TEST(Upserts, GetValuesInPlaceOfZeros) {
  const std::string null = element(bson::Type::null, "number", "");
  const std::string y = int_field("y", 1);
  const auto on_insert = [](const std::string& elements) {
    return doc_field("$setOnInsert", elements);
  };
  const std::string set = doc_field("$set", int_field("x", 1));
  for (const Assign assign : {Assign::missing_or_null, Assign::missing_or_zero, Assign::driver}) {
    EXPECT_EQ(sent({"number"}, in_doc(set + on_insert(null)), assign),
              doc(set + on_insert(value(1))));
    EXPECT_EQ(sent({"number"}, in_doc(on_insert(y + null + y)), assign),
              doc(on_insert(y + value(1) + y)));
  }
  const std::string zero = value(0);
  const Assign zeros = Assign::missing_or_zero;
  EXPECT_EQ(sent({"number"}, in_doc(on_insert(zero)), zeros), doc(on_insert(value(1))));
  EXPECT_EQ(sent({"number"}, in_doc(on_insert(zero)), Assign::missing_or_null), "not sent");
  EXPECT_EQ(sent({"number"}, in_doc(on_insert(null)), Assign::missing), "not sent");
  EXPECT_EQ(sent({"number"}, in_doc(on_insert(value(7))), zeros), "not sent");
  EXPECT_EQ(sent({"number"}, in_doc(on_insert(value(7))), Assign::always),
            doc(on_insert(value(1))));
  // Beside a new one.
  EXPECT_EQ(sent({"z", "number"}, in_doc(on_insert(zero + y)), zeros),
            doc(on_insert(value(1) + y + long_field("z", 1))));
  // In documents, and by a dotted name.
  EXPECT_EQ(sent({"a.b"}, in_doc(on_insert(long_field("a.b", 0))), zeros),
            doc(on_insert(long_field("a.b", 1))));
  EXPECT_EQ(sent({"a.b", "a.c.d"},
                 in_doc(on_insert(doc_field(
                     "a", y + long_field("b", 0) + doc_field("c", string_field("d", "") + y)))),
                 zeros),
            doc(on_insert(
                doc_field("a", y + long_field("b", 1) + doc_field("c", long_field("d", 1) + y)))));
  EXPECT_EQ(sent({"a.b.c"}, in_doc(on_insert(doc_field("a.b", long_field("c", 0)))), zeros),
            doc(on_insert(doc_field("a.b", long_field("c", 1)))));
  // A name with a dot is no path inside a document.
  EXPECT_EQ(sent({"a.b.c"}, in_doc(on_insert(doc_field("a", long_field("b.c", 0)))), zeros),
            "not sent");
  // One that stays beside one that does not.
  EXPECT_EQ(sent({"a.b", "a.c"},
                 in_doc(on_insert(doc_field("a", long_field("b", 0) + long_field("c", 9)))), zeros),
            doc(on_insert(doc_field("a", long_field("b", 1) + long_field("c", 9)))));
  // What could change a document that is there stays.
  EXPECT_EQ(sent({"number"}, in_doc(doc_field("$set", zero)), zeros), "not sent");
  EXPECT_EQ(sent({"number"}, array_of("u", {item(doc_field("$set", zero))}), zeros), "not sent");
}

/// {$set: {<name>: {$cond: [{$eq: [{$type: "$_id"}, "missing"]}, {<new>}, "$<name>"]}}}
std::string stage(const std::string& name, std::string_view inserted) {
  const std::string condition =
      array_of("$eq", {item(string_field("$type", "$_id")), string_field("", "missing")});
  return item(
      doc_field("$set", doc_field(name, array_of("$cond", {item(condition), item(inserted),
                                                           string_field("", "$" + name)}))));
}
/// A pipeline's array, as the value of u.
std::string pipeline(const std::vector<std::string>& stages) {
  return array_of("u", stages);
}
std::string value_of(const std::string& array_element) {
  return array_element.substr(3);  // type, "u", NUL
}

TEST(Upserts, GetTheirValuesInAFirstStage) {
  const std::string own = item(doc_field("$set", int_field("x", 1)));
  const std::string other = item(doc_field("$addFields", int_field("y", 1)));
  EXPECT_EQ(sent({"number"}, pipeline({own, other})),
            value_of(pipeline({stage("number", long_field("$literal", 1)), own, other})));
  EXPECT_EQ(sent({"number"}, pipeline({})),
            value_of(pipeline({stage("number", long_field("$literal", 1))})));
  // A document without _id is one that is being inserted, so _id comes last.
  EXPECT_EQ(sent({"_id", "number"}, pipeline({own})),
            value_of(pipeline({stage("number", long_field("$literal", 1)),
                               stage("_id", long_field("$literal", 1)), own})));
  const std::string nested = array_of(
      "$mergeObjects", {string_field("", "$a.b"), item(doc_field("c", long_field("$literal", 1)))});
  EXPECT_EQ(
      sent({"a.b.c"}, pipeline({own})),
      value_of(pipeline({stage("a", array_of("$mergeObjects", {string_field("", "$a"),
                                                               item(doc_field("b", nested))})),
                         own})));
}

TEST(Upserts, OfFindAndModifyGetValues) {
  for (const std::uint32_t flags : {0U, wire::flag::kChecksumPresent}) {
    ExchangeScript(number)
        .request(find_and_modify(kTxnNumber, "", flags))
        .sends(find_and_modify(kTxnNumber, value(1), flags))
        .reply(inserted_by_modify(5) + ok())
        .relays()
        .counts("assigned=1")
        .play();
  }
}

TEST(Upserts, OfOthersAreRelayed) {
  const std::vector<std::string> requests = {
      update_sequence("", {plain_update(1), plain_update(2)}),
      update_array("", {plain_update(1)}),
      update_sequence("", {}),
      op_msg(body(doc(string_field("update", "elsewhere") + string_field("$db", "bank"))) +
             sequence("updates", {upsert(1)})),
      op_msg(body(doc(string_field("findAndModify", "orders") + doc_field("query", "") +
                      doc_field("update", doc_field("$set", int_field("x", 1))) +
                      string_field("$db", "shop")))),
      // mongod refuses these.
      op_msg(body(doc(update_fields())) + sequence("documents", {upsert(1)})),
      update_sequence("", {upsert(1), doc(bool_field("upsert", true))}),
      op_msg(body(doc(string_field("findAndModify", "orders") +
                      string_field("findandmodify", "orders") + bool_field("upsert", true) +
                      doc_field("update", doc_field("$set", int_field("x", 1))) +
                      string_field("$db", "shop")))),
      find_and_modify(bool_field("upsert", true)),
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ExchangeWorld world(number());
    EXPECT_EQ(world.request(requests[i]), ActionKind::relay);
  }
}

// ---- what goes again -------------------------------------------------------------------------

TEST(Upserts, ThatCollidedGoAgain) {
  const std::vector<std::string> statements = {upsert(0), plain_update(1), upsert(2), upsert(3)};
  for (const bool numbered : {true, false}) {
    const std::string options = kUnordered + (numbered ? kTxnNumber : "");
    const std::string again = numbered ? numbers_field("stmtIds", {0, 3}) : std::string();
    ExchangeScript(number)
        .request(update_sequence(options, statements))
        .sends(update_sequence(options, {upsert(0, value(1)), plain_update(1), upsert(2, value(2)),
                                         upsert(3, value(3))}))
        .reply(n(2) + write_errors({duplicate(0, kNumber), duplicate(3, kNumber)}) +
               upserted({{2, 20}}) + modified(1) + ok())
        .sends(update_sequence(options + again, {upsert(0, value(4)), upsert(3, value(5))}))
        .reply(n(2) + upserted({{1, 30}}) + modified(1) + ok())  // statement 0 finds one now
        .replies(n(4) + upserted({{2, 20}, {3, 30}}) + modified(2) + ok())
        .counts("assigned=3 resent=2 cured=2")
        .play();
  }
}

TEST(Upserts, GoAgainWithTheTailOfAnOrderedBatch) {
  const std::string numbers = numbers_field("stmtIds", {1, 2, 3});
  ExchangeScript(number)
      .request(update_array(kTxnNumber, {upsert(0), upsert(1), plain_update(2), upsert(3)}))
      .sends(update_array(kTxnNumber, {upsert(0, value(1)), upsert(1, value(2)), plain_update(2),
                                       upsert(3, value(3))}))
      .reply(n(1) + write_errors({duplicate(1, kNumber)}) + upserted({{0, 10}}) + modified(0) +
             ok())
      .sends(update_sequence(kTxnNumber + numbers,
                             {upsert(1, value(4)), plain_update(2), upsert(3, value(3))}))
      .reply(n(3) + upserted({{0, 11}, {2, 13}}) + modified(1) + ok())
      .replies(n(4) + upserted({{0, 10}, {1, 11}, {3, 13}}) + modified(1) + ok())
      .counts("assigned=3 resent=1 cured=1")
      .play();
}

TEST(Upserts, OfFindAndModifyGoAgain) {
  const std::string options = kTxnNumber + int_field("maxTimeMS", 1000);
  const auto failed = [](const std::vector<std::string>& keys) {
    return ok(0) + int_field("code", 11000) + duplicate_fields(keys);
  };
  ExchangeScript(number)
      .request(find_and_modify(options))
      .sends(find_and_modify(options, value(1)))
      .pass(100ms)
      .reply(failed(kNumber))
      .sends(find_and_modify(kTxnNumber + long_field("maxTimeMS", 900), value(2)))
      .pass(100ms)
      .reply(failed(kNumber))
      .sends(find_and_modify(kTxnNumber + long_field("maxTimeMS", 800), value(3)))
      .reply(inserted_by_modify(5) + ok())
      .replies(inserted_by_modify(5) + ok())
      .counts("assigned=1 resent=2 cured=1")
      .play();
  ExchangeScript(number)
      .request(find_and_modify(""))
      .sends(find_and_modify("", value(1)))
      .reply(failed({"mail"}))
      .relays()
      .counts("assigned=1 foreign=1")
      .play_once();
}

TEST(Upserts, OfFindAndModifyGiveUpWithTheServersError) {
  Retry retry;
  retry.attempts = 1;
  const std::string failed = ok(0) + int_field("code", 11000) + duplicate_fields(kNumber);
  ExchangeScript([retry] { return rule_set_of(with(retry, rule("shop.*", "number"))); })
      .request(find_and_modify(kTxnNumber))
      .sends(find_and_modify(kTxnNumber, value(1)))
      .reply(failed)
      .sends(find_and_modify(kTxnNumber, value(2)))
      .reply(failed)
      .replies(failed)
      .counts("assigned=1 resent=1 given_up=1", "number")
      .play();
}

/// An index on the field alone can only collide with the document that is inserted.
TEST(Upserts, WithMultiGoAgain) {
  ExchangeScript(number)
      .request(update_sequence(kUnordered, {multi_upsert(0), upsert(1)}))
      .sends(update_sequence(kUnordered, {multi_upsert(0, value(1)), upsert(1, value(2))}))
      .reply(n(0) + write_errors({duplicate(0, kNumber), duplicate(1, kNumber)}) + modified(0) +
             ok())
      .sends(update_sequence(kUnordered, {multi_upsert(0, value(3)), upsert(1, value(4))}))
      .reply(n(8) + upserted({{1, 11}}) + modified(7) + ok())
      .replies(n(8) + upserted({{1, 11}}) + modified(7) + ok())
      .counts("assigned=2 resent=2 cured=2")
      .play_once();
}

/// With another index, documents that it matched may have been changed before it failed.
TEST(Upserts, WithMultiNeverGoAgainAfterADuplicateInAnotherIndex) {
  const auto two_rules = [] { return rule_set_of(rule("shop.*", "a.b"), rule("shop.*", "c")); };
  const std::string values = long_field("a.b", 1) + long_field("c", 1);
  const std::string nameless =
      write_error(0, 11000,
                  string_field("errmsg",
                               "E11000 duplicate key error collection: shop.orders index: c_1 dup "
                               "key: { : 1 }"));
  const struct {
    const char* name;
    std::string error;
  } rows[] = {
      {"with a key of the application's", duplicate(0, {"c", "t"})},
      {"with a key of the application's in front", duplicate(0, {"t", "c"})},
      {"on two fields with values", duplicate(0, {"a.b", "c"})},
      {"around the field", duplicate(0, {"a"})},
      {"whose keys the error does not show", nameless},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ExchangeWorld world(two_rules());
    ASSERT_EQ(world.request(update_sequence("", {multi_upsert(0)})), ActionKind::send);
    EXPECT_EQ(world.bytes(), update_sequence("", {multi_upsert(0, values)}));
    EXPECT_EQ(world.reply_with(n(0) + write_errors({row.error}) + modified(0) + ok()),
              ActionKind::relay);
  }
  ExchangeScript(number)
      .request(update_sequence(kUnordered, {multi_upsert(0), upsert(1)}))
      .sends(update_sequence(kUnordered, {multi_upsert(0, value(1)), upsert(1, value(2))}))
      .reply(n(0) + write_errors({duplicate(0, {"number", "t"}), duplicate(1, kNumber)}) +
             modified(0) + ok())
      .sends(update_sequence(kUnordered, {upsert(1, value(3))}))
      .reply(n(1) + upserted({{0, 11}}) + modified(0) + ok())
      .replies(n(1) + write_errors({duplicate(0, {"number", "t"})}) + upserted({{1, 11}}) +
               modified(0) + ok())
      .counts("assigned=2 resent=1 cured=1 given_up=1", "number")
      .play_once();
  ExchangeScript(number)
      .request(update_sequence("", {multi_upsert(0), upsert(1)}))
      .sends(update_sequence("", {multi_upsert(0, value(1)), upsert(1, value(2))}))
      .reply(n(0) + write_errors({duplicate(0, {"number", "t"})}) + modified(0) + ok())
      .relays()
      .counts("assigned=2 given_up=1", "number")
      .play_once();
  // One behind the statement that failed was never executed.
  ExchangeScript(number)
      .request(update_sequence("", {upsert(0), multi_upsert(1)}))
      .sends(update_sequence("", {upsert(0, value(1)), multi_upsert(1, value(2))}))
      .reply(n(0) + write_errors({duplicate(0, kNumber)}) + modified(0) + ok())
      .sends(update_sequence("", {upsert(0, value(3)), multi_upsert(1, value(2))}))
      .reply(n(7) + upserted({{0, 10}}) + modified(6) + ok())
      .replies(n(7) + upserted({{0, 10}}) + modified(6) + ok())
      .counts("assigned=2 resent=1 cured=1")
      .play_once();
}

/// As FerretDB reports a duplicate: without an index. A document whose `_id` the server makes can
/// only collide in the other index.
TEST(Upserts, GoAgainAfterAnErrorWithoutAnIndexIfOnlyOneCanBeMeant) {
  const std::string nameless = write_error(
      0, 11000, string_field("errmsg", "E11000 duplicate key error collection: shop.orders"));
  const auto store = std::make_shared<FakeStore>();
  store->indexes = {{{"number"}}};
  const auto rules = [&] {
    return std::make_shared<const RuleSet>(std::vector{rule("shop.*", "number")}, "idproxy", store);
  };
  const std::string own_id = doc_field("q", int_field("_id", 1)) +
                             doc_field("u", doc_field("$set", int_field("x", 1))) +
                             bool_field("upsert", true);
  const std::string inserted = n(0) + write_errors({nameless}) + modified(0) + ok();
  const struct {
    const char* name;
    std::string request;
    ActionKind action;
  } rows[] = {
      {"an upsert", update_sequence("", {upsert(1)}), ActionKind::send},
      {"one that fixes its _id", update_sequence("", {doc(own_id)}), ActionKind::relay},
      {"a document", insert_sequence({doc(int_field("x", 1))}), ActionKind::send},
      {"a document with an _id", insert_sequence({doc(int_field("_id", 1))}), ActionKind::relay},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ExchangeWorld world(rules());
    ASSERT_EQ(world.request(row.request), ActionKind::send);
    EXPECT_EQ(world.reply_with(inserted), row.action);
  }
  ExchangeWorld world(rules());
  ASSERT_EQ(world.request(find_and_modify("")), ActionKind::send);
  EXPECT_EQ(world.reply_with(failure(11000, "E11000 duplicate key error collection: shop.orders")),
            ActionKind::send);
  store->indexes = {{{"number"}, {"mail"}}};
  ASSERT_EQ(world.request(find_and_modify("")), ActionKind::send);
  EXPECT_EQ(world.reply_with(failure(11000, "E11000 duplicate key error collection: shop.orders")),
            ActionKind::relay);
}

TEST(Upserts, InATransactionStartItAgain) {
  const std::string transient =
      ok(0) +
      string_field("errmsg",
                   "mongo-idproxy: the value generated for field 'number' of shop.orders is "
                   "taken; run the transaction again") +
      int_field("code", 112) + string_field("codeName", "WriteConflict") +
      texts_field("errorLabels", {"TransientTransactionError"});
  ExchangeScript(number)
      .request(update_sequence(kTransaction, {upsert(0), upsert(1)}))
      .sends(update_sequence(kTransaction, {upsert(0, value(1)), upsert(1, value(2))}))
      .reply(n(1) + write_errors({duplicate(1, kNumber)}) + upserted({{0, 10}}) + modified(0) +
             ok())
      .replies(transient)
      .counts("assigned=2 transient=1")
      .play();
  ExchangeScript(number)
      .request(find_and_modify(kTransaction))
      .sends(find_and_modify(kTransaction, value(1)))
      .reply(ok(0) + int_field("code", 11000) + duplicate_fields(kNumber))
      .replies(transient)
      .counts("assigned=1 transient=1")
      .play();
}

// ---- values that were not used ---------------------------------------------------------------

class Lent : public ::testing::Test {
 protected:
  ExchangeScript::Rules rules() {
    return [this] {
      last = std::make_shared<Lending>();
      last->at_hand = 10;
      Rule lent = rule("shop.*", "number");
      lent.strategy = shared_source<LendingSource>(last);
      return rule_set_of(std::move(lent));
    };
  }
  std::shared_ptr<Lending> last;
};

TEST_F(Lent, GoesBackIfADocumentWasFound) {
  const std::string request = update_sequence(kTxnNumber, {upsert(0), upsert(1), upsert(2)});
  const std::string sent =
      update_sequence(kTxnNumber, {upsert(0, value(1)), upsert(1, value(2)), upsert(2, value(3))});
  const struct {
    const char* name;
    std::string reply;
    std::string calls;
  } rows[] = {
      {"all found", n(3) + modified(3) + ok(), "back 1 2 3; "},
      {"one inserted", n(3) + upserted({{1, 11}}) + modified(2) + ok(), "back 1 3; "},
      {"all inserted", n(3) + upserted({{0, 10}, {1, 11}, {2, 12}}) + modified(0) + ok(), ""},
      {"executed earlier", n(3) + modified(3) + numbers_field("retriedStmtIds", {0}) + ok(), ""},
      {"too few", n(2) + modified(2) + ok(), ""},
      {"no n", modified(3) + ok(), ""},
      {"refused behind the first", n(1) + write_errors({write_error(1, 121)}) + modified(1) + ok(),
       "back 1 2 3; "},
      {"an outcome that nobody knows",
       n(1) + write_errors({write_error(1, 6)}) + modified(1) + ok(), "back 1; "},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ExchangeScript(rules())
        .request(request)
        .sends(sent)
        .reply(row.reply)
        .relays()
        .counts("assigned=3")
        .play_once();
    EXPECT_EQ(last->calls, row.calls);
  }
}

TEST_F(Lent, IsKeptForMultiAndForWritesWithoutAnswers) {
  ExchangeScript(rules())
      .request(update_sequence("", {multi_upsert(0), upsert(1)}))
      .sends(update_sequence("", {multi_upsert(0, value(1)), upsert(1, value(2))}))
      .reply(n(8) + modified(8) + ok())
      .relays()
      .counts("assigned=2")
      .play_once();
  EXPECT_EQ(last->calls, "back 2; ");
  const std::string w0 = doc_field("writeConcern", int_field("w", 0)) + kUnordered;
  ExchangeScript(rules())
      .request(update_sequence(w0, {upsert(0)}))
      .sends(update_sequence(w0, {upsert(0, value(1))}))
      .reply(n(0) + ok())
      .relays()
      .counts("assigned=1")
      .play_once();
  EXPECT_EQ(last->calls, "");
}

TEST_F(Lent, OfFindAndModifyGoesBack) {
  const std::string not_found = doc_field("lastErrorObject", int_field("n", 1));
  const struct {
    const char* name;
    std::string reply;
    std::string calls;
  } rows[] = {
      {"found", found_by_modify() + ok(), "back 1; "},
      {"inserted", inserted_by_modify(5) + ok(), ""},
      {"executed earlier", found_by_modify() + int_field("retriedStmtId", 0) + ok(), ""},
      {"neither", not_found + ok(), ""},
      {"no result", ok(), ""},
      {"a duplicate of another key", ok(0) + int_field("code", 11000) + duplicate_fields({"mail"}),
       "back 1; "},
      {"not authorized", failure(13, "not authorized"), "back 1; "},
      {"not primary", failure(10107, "not primary"), ""},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    ExchangeWorld world(rules()());
    ASSERT_EQ(world.request(find_and_modify(kTxnNumber)), ActionKind::send);
    EXPECT_EQ(world.reply_with(row.reply), ActionKind::relay);
    EXPECT_EQ(last->calls, row.calls);
  }
}

TEST_F(Lent, ThatCollidedIsBurnedAndTheFreshOneReturned) {
  ExchangeScript(rules())
      .request(update_sequence("", {upsert(0)}))
      .sends(update_sequence("", {upsert(0, value(1))}))
      .reply(n(0) + write_errors({duplicate(0, kNumber)}) + modified(0) + ok())
      .sends(update_sequence("", {upsert(0, value(2))}))
      .reply(n(1) + modified(1) + ok())
      .replies(n(1) + modified(1) + ok())
      .counts("assigned=1 resent=1 cured=1")
      .play_once();
  EXPECT_EQ(last->calls, "taken 1 of 1; back 2; ");
}

// ---- what is forwarded -----------------------------------------------------------------------

std::string replacement(std::int32_t k) {
  return doc(upsert_fields(k, int_field("x", 1)));
}

TEST(Upserts, ThatAreUnsafeAreForwardedAndCounted) {
  Rule lax = rule("shop.*", "number");
  lax.keep = Keep::off;
  const auto rules = rule_set_of(rule("shop.*", "_id"), std::move(lax));
  ExchangeWorld world(rules);
  const std::string only = update_sequence("", {replacement(0), replacement(1)});
  EXPECT_EQ(world.request(only), ActionKind::relay);
  const auto forwarded = world.exchange->facts().forwarded;
  ASSERT_EQ(forwarded.size(), 2U);
  EXPECT_EQ(forwarded[0].reason, ForwardReason::replacement);
  EXPECT_EQ(forwarded[1].reason, ForwardReason::replacement_loses_field);
  EXPECT_EQ(forwarded[1].assignment->rule->field, "number");
  EXPECT_EQ(world.request(update_sequence("", {replacement(0), upsert(1)})), ActionKind::send);
  EXPECT_EQ(world.bytes(),
            update_sequence("", {replacement(0), upsert(1, long_field("_id", 1) + value(1))}));
  const auto count = [&](std::size_t rule, ForwardReason reason) {
    return rules->outcomes(rule).forwarded[static_cast<std::size_t>(reason)].load();
  };
  EXPECT_EQ(count(0, ForwardReason::replacement), 3U);
  EXPECT_EQ(count(1, ForwardReason::replacement_loses_field), 3U);
  EXPECT_EQ(count(1, ForwardReason::replacement), 0U);
}

TEST(Upserts, ThatAreUnsafeMayBeRefused) {
  Rule strict = rule("shop.*", "number");
  strict.upserts = Upserts::refuse;
  strict.keep = Keep::off;
  const auto rules = rule_set_of(std::move(strict));
  ExchangeWorld world(rules);
  EXPECT_EQ(world.request(update_sequence("", {upsert(0), replacement(1)})), ActionKind::reply);
  const auto body = wire::OpMsgView::parse(as_bytes(world.bytes()))->body();
  EXPECT_EQ(bson::find(body, "code")->as_integer(), 96);
  EXPECT_EQ(bson::find(body, "errmsg")->text(),
            "mongo-idproxy: an upsert into shop.orders can get no value for field 'number' "
            "(replacement_loses_field), and the rule's `upserts` is refuse; use update operators "
            "such as $set, or put the field into the replacement: without it a matching document "
            "loses its value");
  EXPECT_TRUE(world.exchange->facts().forwarded.empty());
  EXPECT_EQ(world.counts(), "");
  EXPECT_EQ(world.request(update_sequence("", {upsert(0)})), ActionKind::send);
}

TEST(Upserts, AreLeftAloneWhereTheRuleSaysSo) {
  Rule lax = rule("shop.*", "number");
  lax.upserts = Upserts::forward;
  ExchangeWorld world(rule_set_of(std::move(lax)));
  EXPECT_EQ(world.request(update_sequence("", {upsert(0)})), ActionKind::relay);
  EXPECT_EQ(world.exchange->facts().forwarded.front().reason, ForwardReason::configured);
}

TEST(Upserts, NeedNoValueIfNoneCanBeGenerated) {
  ExchangeWorld world(rule_set_of(rule("shop.*", "number", Assign::missing, 0)));
  EXPECT_EQ(world.request(update_sequence("", {plain_update(0)})), ActionKind::relay);
  EXPECT_EQ(world.request(update_sequence("", {replacement(0)})), ActionKind::send)
      << "without upsert first";
  EXPECT_EQ(world.request(update_sequence("", {plain_update(0), upsert(1)})), ActionKind::reply);
  EXPECT_EQ(world.request(find_and_modify("")), ActionKind::reply);
}

TEST(Upserts, WithEqualStatementNumbersAreRefused) {
  ExchangeWorld world(number());
  const std::string options = kTxnNumber + numbers_field("stmtIds", {1, 1});
  EXPECT_EQ(world.request(update_sequence(options, {upsert(0), upsert(1)})), ActionKind::reply);
}

// ---- report and size -------------------------------------------------------------------------

TEST(Upserts, ReportWhatTheyInserted) {
  const auto reporting = [] {
    Rule reported = rule("shop.*", "number");
    reported.report = true;
    return rule_set_of(std::move(reported));
  };
  const auto report = [](std::int32_t index, std::int64_t number) {
    return doc_field(
        "idproxy",
        array_field("assigned", {doc(int_field("index", index) + string_field("field", "number") +
                                     long_field("value", number))}));
  };
  ExchangeScript(reporting)
      .request(update_sequence("", {upsert(0), upsert(1)}))
      .sends(update_sequence("", {upsert(0, value(1)), upsert(1, value(2))}))
      .reply(n(2) + upserted({{1, 11}}) + modified(1) + ok())
      .replies(n(2) + upserted({{1, 11}}) + modified(1) + ok() + report(1, 2))
      .counts("assigned=2")
      .play_once();
  ExchangeScript(reporting)
      .request(find_and_modify(""))
      .sends(find_and_modify("", value(1)))
      .reply(inserted_by_modify(5) + ok())
      .replies(inserted_by_modify(5) + ok() + report(0, 1))
      .counts("assigned=1")
      .play_once();
  // Its other fields stay as they are, whatever they mean in replies to other writes.
  const std::string labels = texts_field("errorLabels", {"a", "NoWritesPerformed", "a"});
  const std::string odd = labels + int_field("n", 3) + array_field("upserted", {doc()}) +
                          array_field("writeErrors", {doc()});
  ExchangeScript(reporting)
      .request(find_and_modify(""))
      .sends(find_and_modify("", value(1)))
      .reply(inserted_by_modify(5) + ok() + odd)
      .replies(inserted_by_modify(5) + ok() + odd + report(0, 1))
      .counts("assigned=1")
      .play_once();
  ExchangeScript(reporting)
      .request(find_and_modify(""))
      .sends(find_and_modify("", value(1)))
      .reply(doc_field("lastErrorObject", int_field("n", 1)) + n(1) + ok())
      .relays()
      .counts("assigned=1")
      .play_once();
  ExchangeScript(reporting)
      .request(find_and_modify(""))
      .sends(find_and_modify("", value(1)))
      .reply(found_by_modify() + ok())
      .relays()
      .counts("assigned=1")
      .play_once();
}

/// An upsert that sets x to a text of this size.
std::string large_upsert(std::int32_t k, std::size_t size, std::string_view values = {}) {
  const std::string on_insert = values.empty() ? "" : doc_field("$setOnInsert", values);
  std::string bytes = doc(upsert_fields(k, doc_field("$set", string_field("x", "")) + on_insert));
  // The text comes last: each of the calls above would copy it several times.
  std::size_t length = 0;  // where that of the text stands, and of what is around it
  for (const std::string_view around : {"", "\3u", "\3$set", "\2x"}) {
    if (!around.empty()) length = bytes.find(joined({around, kZero})) + around.size() + 1;
    auto* const at = reinterpret_cast<std::uint8_t*>(bytes.data()) + length;
    store_i32(at, load_i32(at) + static_cast<std::int32_t>(size));
  }
  return bytes.insert(length + 4, size, 'x');
}

TEST(Upserts, MoveToASequenceIfTheBodyBecomesTooLarge) {
  const auto body_size = [](const std::string& message) {
    return static_cast<std::int64_t>(wire::OpMsgView::parse(as_bytes(message))->body().size());
  };
  const std::size_t most = 8'000'000;
  const std::int64_t least = body_size(update_array("", {large_upsert(0, 0), large_upsert(1, 0)}));
  const std::size_t last = static_cast<std::size_t>(bson::kMaxInternalDocument - least) - most;
  ExchangeWorld world(number());
  ASSERT_EQ(world.request(update_array("", {large_upsert(0, most), large_upsert(1, last)})),
            ActionKind::send);
  EXPECT_TRUE(world.bytes() == update_sequence("", {large_upsert(0, most, value(1)),
                                                    large_upsert(1, last, value(2))}));
}

TEST(Upserts, GoInPartsIfTheMessageBecomesTooLarge) {
  const std::size_t most = 15'999'000;
  const auto limit = static_cast<std::size_t>(wire::kMaxMessageSize);
  const std::size_t least =
      update_sequence(kTxnNumber, {large_upsert(0, 0), large_upsert(1, 0), large_upsert(2, 0)})
          .size();
  const std::size_t last = limit - least - 2 * most;
  ExchangeWorld world(number());
  ASSERT_EQ(world.request(update_sequence(
                kTxnNumber, {large_upsert(0, most), large_upsert(1, most), large_upsert(2, last)})),
            ActionKind::send);
  EXPECT_TRUE(world.bytes() ==
              update_sequence(kTxnNumber + numbers_field("stmtIds", {0, 1}),
                              {large_upsert(0, most, value(1)), large_upsert(1, most, value(2))}));
  ASSERT_EQ(world.reply_with(n(2) + upserted({{0, 10}, {1, 11}}) + modified(0) + ok()),
            ActionKind::send);
  EXPECT_TRUE(addressed(world.bytes(), 7, 0) ==
              update_sequence(kTxnNumber + numbers_field("stmtIds", {2}),
                              {large_upsert(2, last, value(3))}));
  ASSERT_EQ(world.reply_with(n(1) + upserted({{0, 12}}) + modified(0) + ok()), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(3) + upserted({{0, 10}, {1, 11}, {2, 12}}) + modified(0) + ok()));
}

// ---- queryable encryption --------------------------------------------------------------------

/// encryptionInformation of a collection with this encrypted field.
std::string encrypting(const std::string& path, const std::string& ns = "shop.orders") {
  const std::string fields =
      array_field("fields", {doc(string_field("bsonType", "string") + string_field("path", path))});
  return doc_field("encryptionInformation",
                   int_field("type", 1) + doc_field("schema", doc_field(ns, fields)));
}

/// Each write command that inserts a document, with this in its body, or in its entry of nsInfo.
std::vector<std::string> each_command(const std::string& encryption) {
  const std::vector<std::string> ns_info = {ns_entry("other.orders", encrypting("number")),
                                            ns_entry("shop.orders", encryption)};
  return {client(Form::sequence, encryption, {nth(1)}),
          client(Form::array, encryption, {nth(1)}),
          update_sequence(encryption, {upsert(1)}),
          find_and_modify(encryption),
          bulk(BulkForm::sequences, "", {insert_op(1, doc(int_field("x", 1)))}, ns_info),
          bulk(BulkForm::arrays, "", {upsert_op(1, 1)}, ns_info)};
}

TEST(Encryption, LetsValuesIntoOtherFields) {
  for (const std::string& encryption :
       {encrypting("secret"), encrypting("a.number"), encrypting("numbers"),
        encrypting("number", "shop.others"), int_field("encryptionInformation", 1),
        doc_field("encryptionInformation", int_field("schema", 1))}) {
    for (const std::string& command : each_command(encryption)) {
      ExchangeWorld world(number());
      EXPECT_EQ(world.request(command), ActionKind::send) << world.body();
      EXPECT_EQ(world.counts(), "assigned=1");
    }
  }
}

TEST(Encryption, RefusesValuesForEncryptedFields) {
  const auto nested = [] { return rule_set_of(rule("shop.*", "_id"), rule("shop.*", "a.b")); };
  const auto refused = [](const auto& rules, const std::string& field, const std::string& path) {
    for (const std::string& command : each_command(encrypting(path))) {
      ExchangeWorld world(rules());
      ASSERT_EQ(world.request(command), ActionKind::reply);
      EXPECT_NE(world.body().find("no value for field '" + field + "' of shop.orders: the driver"),
                std::string::npos);
      EXPECT_EQ(world.counts(), "");
    }
  };
  refused(number, "number", "number");
  for (const char* path : {"a", "a.b", "a.b.c"}) refused(nested, "a.b", path);
}

TEST(Encryption, LetsDocumentsPassThatBringTheirValue) {
  const std::string brings = client(Form::sequence, encrypting("number"), {doc(value(7))});
  EXPECT_EQ(ExchangeWorld(number()).request(brings), ActionKind::relay);
}

}  // namespace exchange_upsert_test
}  // namespace idproxy::rewrite
