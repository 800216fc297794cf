// What a write does whose client has not shown that it may insert.

#include "support/bulk_writes.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"
#include "support/lending_source.hpp"
#include "support/sequenced_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_rights_test {

using namespace test;
using ids::Errc;

const std::string kMajorityNot = doc_field("writeConcern", int_field("w", 1));

std::string asks_to_insert(const std::string& more = {}) {
  return op_msg(body(doc(string_field("insert", "orders") +
                         array_field("documents", {doc(array_field("_id", {}))}) + kMajorityNot +
                         more + string_field("$db", "shop"))));
}

std::string asks_to_upsert() {
  const std::string wrong = doc_field("q", "") + doc_field("u", int_field("$idproxy", 1));
  return op_msg(body(doc(string_field("update", "orders") + bool_field("ordered", true) +
                         array_field("updates", {doc(wrong + bool_field("upsert", false)),
                                                 doc(wrong + bool_field("upsert", true))}) +
                         kMajorityNot + string_field("$db", "shop"))));
}

std::string asks_to_find_and_modify() {
  return op_msg(body(doc(string_field("findAndModify", "orders") + doc_field("query", "") +
                         array_field("update", {}) + array_field("arrayFilters", {}) +
                         bool_field("upsert", true) + kMajorityNot + string_field("$db", "shop"))));
}

const std::string kMay = n(0) + write_errors({write_error(0, 53)}) + ok();
const std::string kMayNot = failure(13, "not authorized on shop to execute command");

class RightsExchange : public ::testing::Test {
 protected:
  explicit RightsExchange() : world(rules()) { world.memory.logins = Logins::enforced; }

  std::shared_ptr<const RuleSet> rules() {
    Rule made = rule("shop.*", "_id");
    made.strategy = shared_source<LendingSource>(lending);
    return rule_set_of(std::move(made));
  }
  /// The numbers from `first` on.
  ids::Grant numbers(std::int64_t first, std::uint64_t count) {
    return {nullptr, {{first, count}}};
  }
  bool has(Right right) { return world.memory.rights.has("shop.orders", right); }

  std::shared_ptr<Lending> lending = std::make_shared<Lending>();
  ExchangeWorld world;
};

const std::string kInsert = client(Form::sequence, "", {nth(0), nth(1)});

TEST_F(RightsExchange, NumbersInMemoryNeedNoQuestion) {
  lending->at_hand = 2;
  EXPECT_EQ(world.request(kInsert), ActionKind::send);
  EXPECT_FALSE(has(Right::insert));
  EXPECT_EQ(world.reply_with(n(2) + ok()), ActionKind::relay);
  EXPECT_TRUE(has(Right::insert)) << "the insert has shown it";
}

TEST_F(RightsExchange, TheServersRefusalBringsThemBack) {
  lending->at_hand = 2;
  world.memory.rights.add("shop.orders", Right::insert, {});
  EXPECT_EQ(world.request(kInsert), ActionKind::send);
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::relay);
  EXPECT_EQ(lending->back, (std::vector<std::int64_t>{1, 2}));
  EXPECT_FALSE(has(Right::insert)) << "it has lost it";
  EXPECT_NE(world.exchange->facts().not_permitted, nullptr);
  EXPECT_EQ(world.counts(), "assigned=2 not_permitted=1");
}

TEST_F(RightsExchange, TheStoreIsAskedOnceTheServerHasAgreed) {
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  EXPECT_EQ(world.bytes(), asks_to_insert());
  EXPECT_TRUE(world.exchange->asks_server());
  EXPECT_EQ(world.counts(), "") << "nothing is sent yet";
  EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_store);
  EXPECT_FALSE(world.exchange->asks_server());
  EXPECT_FALSE(world.exchange->awaits_reply()) << "the insert itself is not sent";
  EXPECT_EQ(world.answer(numbers(7, 2)), ActionKind::send);
  EXPECT_EQ(world.bytes(), client(Form::sequence, "", {nth(0, 7), nth(1, 8)}));
  EXPECT_EQ(world.reply_with(n(2) + ok()), ActionKind::relay);
  EXPECT_EQ(world.counts(), "assigned=2");
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_store) << "it is asked once";
}

TEST_F(RightsExchange, WithoutTheRightNothingIsAskedAndTheClientGetsTheServersError) {
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::reply);
  EXPECT_NE(world.body().find(int_field("code", 13)), std::string::npos);
  EXPECT_NE(world.body().find("the server says: not authorized on shop"), std::string::npos);
  EXPECT_EQ(world.counts(), "not_permitted=1");
  EXPECT_EQ(world.exchange->facts().not_permitted->ns, "shop.orders");
  EXPECT_EQ(lending->calls, "");
}

TEST_F(RightsExchange, AMongosMaySayItForTheDocument) {
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({write_error(0, 13)}) + ok()), ActionKind::reply);
  EXPECT_EQ(world.counts(), "not_permitted=1");
}

TEST_F(RightsExchange, AnswersThatNoServerGivesCloseTheConnection) {
  for (const std::string& odd : {n(1) + ok(), ok(2), n(0), std::string()}) {
    EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
    EXPECT_EQ(world.reply_with(odd), ActionKind::close);
  }
}

/// The question had no session, so the server has added no label.
TEST_F(RightsExchange, AnErrorThatPassesGetsTheLabelOfTheWrite) {
  const std::string kStepDown = failure(10107, "not primary");
  const auto label_for = [&](const std::string& options) {
    EXPECT_EQ(world.request(client(Form::sequence, options, {nth(0)})), ActionKind::ask_server);
    EXPECT_EQ(world.reply_with(kStepDown), ActionKind::reply);
    EXPECT_NE(world.body().find(int_field("code", 10107)), std::string::npos);
    for (const std::string_view label : {kRetryableWriteError, kTransientTransactionError}) {
      if (world.body().find(label) != std::string::npos) return label;
    }
    return std::string_view();
  };
  EXPECT_EQ(label_for(""), "");
  EXPECT_EQ(label_for(kTxnNumber), kRetryableWriteError);
  EXPECT_EQ(label_for(kTransaction), kTransientTransactionError);
  EXPECT_EQ(world.counts(), "");
}

TEST_F(RightsExchange, KeepsTheFieldsThatTheServerJudgesBy) {
  const std::string kept = bool_field("bypassDocumentValidation", true) +
                           int_field("maxTimeMS", 100) + string_field("comment", "c");
  EXPECT_EQ(world.request(client(Form::array, kept + kTransaction, {nth(0)})),
            ActionKind::ask_server);
  EXPECT_EQ(world.bytes(), asks_to_insert(kept));
}

/// Servers want one more right for a write past validation.
TEST_F(RightsExchange, PastValidationIsARightOfItsOwn) {
  const std::string past =
      client(Form::array, bool_field("bypassDocumentValidation", true), {nth(0)});
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_store);
  EXPECT_EQ(world.request(past), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::reply);
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_store) << "that one is kept";
  EXPECT_EQ(world.request(past), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_store);
  EXPECT_EQ(world.request(past), ActionKind::ask_store);
}

/// A server that takes its time does not use up that of the store.
TEST_F(RightsExchange, TheStoreHasItsTimeAfterTheQuestion) {
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  world.clock.advance(std::chrono::seconds(5));
  EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_store);
  EXPECT_EQ(world.last<action::AskStore>().patience, ids::StoreSource::kPatience);
}

TEST_F(RightsExchange, UpsertsNeedMore) {
  const std::string update = update_sequence("", {upsert(1)});
  EXPECT_EQ(world.request(update), ActionKind::ask_server);
  EXPECT_EQ(world.bytes(), asks_to_upsert());
  EXPECT_EQ(world.reply_with(n(0) + write_errors({write_error(0, 9)}) + ok()),
            ActionKind::ask_store);
  EXPECT_TRUE(has(Right::insert) && has(Right::upsert) && !has(Right::find_and_modify));
  EXPECT_EQ(world.request(find_and_modify("")), ActionKind::ask_server);
  EXPECT_EQ(world.bytes(), asks_to_find_and_modify());
  EXPECT_EQ(world.reply_with(failure(9, "Cannot specify arrayFilters and a pipeline update")),
            ActionKind::ask_store);
  EXPECT_TRUE(has(Right::find_and_modify));
}

TEST_F(RightsExchange, UnacknowledgedOnesWaitForTheAnswerToo) {
  const std::string insert = client(Form::array, "", {nth(0)}, wire::flag::kMoreToCome);
  EXPECT_EQ(world.request(insert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_store);
  EXPECT_EQ(world.answer(numbers(7, 1)), ActionKind::send);
  EXPECT_FALSE(world.exchange->awaits_reply());
  world.memory.rights.forget();
  EXPECT_EQ(world.request(insert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::reply);
  EXPECT_EQ(world.bytes(), "") << "nobody waits for an answer";
  EXPECT_EQ(world.counts(), "assigned=1 unacknowledged=1 not_permitted=1");
}

TEST_F(RightsExchange, DocumentsThatCannotBeStoredNeedNothing) {
  const std::string bad = doc(array_field("_id", {}) + int_field("x", 1));
  Rule made = rule("shop.*", "n");
  made.strategy = shared_source<LendingSource>(lending);
  world.reload(rule_set_of(std::move(made)));
  const auto relayed = [&](const std::string& options, const std::vector<std::string>& documents) {
    const std::string insert = client(Form::sequence, options, documents);
    return world.request(insert) == ActionKind::send && world.bytes() == insert;
  };
  for (const bool enforces : {true, false}) {
    world.memory.logins = enforces ? Logins::enforced : Logins::not_enforced;
    EXPECT_TRUE(relayed("", {bad}));
    EXPECT_TRUE(relayed("", {bad, nth(1)})) << "an ordered insert stops there";
    EXPECT_TRUE(relayed(kUnordered, {bad, bad}));
    EXPECT_FALSE(relayed(kUnordered, {bad, nth(1)}));
    EXPECT_FALSE(relayed("", {nth(1), bad}));
  }
  EXPECT_EQ(world.counts(), "");
}

TEST_F(RightsExchange, NewSequencesNeedIt) {
  auto lendings = std::make_shared<Lendings>();
  for (const char* tenant : {"a", "b"}) {
    lendings->emplace(tenant, std::make_shared<Lending>());
    lendings->at(tenant)->at_hand = 9;
  }
  Rule made = rule("shop.*", "n");
  made.strategy = std::make_shared<SequencedRule>(std::vector<std::string>{"t"}, lendings);
  world.reload(rule_set_of(std::move(made)));
  const auto insert = [](const char* tenant) {
    return client(Form::sequence, "", {doc(string_field("t", tenant))});
  };
  EXPECT_EQ(world.request(insert("a")), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::reply);
  EXPECT_EQ(world.request(insert("a")), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::send);
  EXPECT_EQ(world.bytes(),
            client(Form::sequence, "", {doc(string_field("t", "a") + long_field("n", 1))}));
  world.memory.rights.forget();
  EXPECT_EQ(world.request(insert("a")), ActionKind::send) << "it is in use now";
  EXPECT_EQ(world.request(insert("b")), ActionKind::ask_server);
}

// ---- a store that has not heard of the collection ----------------------------------------------

class OutlinedExchange : public RightsExchange {
 protected:
  /// The command of the question to the server, and the collection.
  std::string asked_for() {
    const auto view = wire::OpMsgView::parse(as_bytes(world.bytes()));
    const auto command = bson::Elements(view->body()).next();
    return std::string(command->key) + " " + std::string(command->text());
  }
  void use(std::vector<Rule> rules) {
    world.reload(std::make_shared<const RuleSet>(std::move(rules), "idproxy", store));
  }
  Rule lent(std::string ns) {
    Rule made = rule(std::move(ns), "n");
    made.strategy = shared_source<LendingSource>(lending);
    return made;
  }
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
};

TEST_F(OutlinedExchange, TheStoreHearsOfACollectionOnceTheRightIsShown) {
  lending->at_hand = 2;
  use({lent("shop.*")});
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::reply);
  EXPECT_TRUE(store->asked.empty());
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::send);
  EXPECT_EQ(store->asked, (std::set<std::string>{"shop.orders"}));
  world.memory.rights.forget();
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server) << "two numbers are not left";
  lending->at_hand = 2;
  EXPECT_EQ(world.request(kInsert), ActionKind::send) << "they are";
}

/// It is looked at from the start.
TEST_F(OutlinedExchange, ACollectionThatARuleNamesIsKnown) {
  lending->at_hand = 2;
  use({lent("shop.orders")});
  EXPECT_EQ(world.request(kInsert), ActionKind::send);
}

TEST_F(OutlinedExchange, DocumentsThatHaveTheirValuesAreRelayed) {
  use({lent("shop.*")});
  EXPECT_EQ(world.request(client(Form::array, "", {doc(int_field("n", 5))})), ActionKind::relay);
  EXPECT_TRUE(store->asked.empty());
}

TEST_F(OutlinedExchange, AViewGetsItsInsertAsItCame) {
  store->set({ids::Readiness::Kind::left_alone, {}});
  use({lent("shop.*")});
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::send);
  EXPECT_EQ(world.bytes(), kInsert);
  EXPECT_EQ(world.reply_with(failure(166, "a view")), ActionKind::relay);
  EXPECT_EQ(world.counts(), "");
}

TEST_F(OutlinedExchange, AnUpsertThatIsForwardedIsSentAndCountedAsSuch) {
  auto lendings = std::make_shared<Lendings>();
  Rule made = rule("shop.*", "n");
  made.strategy = std::make_shared<SequencedRule>(std::vector<std::string>{"t"}, lendings);
  use({std::move(made)});
  const std::string update = update_sequence("", {upsert(1)});
  EXPECT_EQ(world.request(update), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({write_error(0, 9)}) + ok()), ActionKind::send);
  EXPECT_EQ(world.bytes(), update);
  EXPECT_EQ(world.counts(), "");
  constexpr auto kReason = static_cast<std::size_t>(ForwardReason::depends_on_document);
  EXPECT_EQ(world.namespaces.rules()->outcomes(0).forwarded[kReason], 1U);
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
}

/// The server refuses it; till then, others' writes would wait.
TEST_F(OutlinedExchange, WhatAStrangerWantsToDropStaysKnown) {
  use({lent("shop.*")});
  const std::string drop =
      op_msg(body(doc(string_field("drop", "orders") + string_field("$db", "shop"))));
  EXPECT_EQ(world.request(drop), ActionKind::relay);
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::relay);
  EXPECT_TRUE(store->changes.empty());
  world.memory.rights.forget();  // as with a login
  world.memory.logins = Logins::unknown;
  EXPECT_EQ(world.request(drop), ActionKind::relay);
  EXPECT_EQ(store->changes.size(), 1U) << "who knows";
  world.memory.logins = Logins::enforced;
  world.memory.logged_in = true;
  EXPECT_EQ(world.request(drop), ActionKind::relay);
  EXPECT_EQ(store->changes.size(), 2U);
}

TEST_F(OutlinedExchange, WhatTheServerHasJustRefusedToDropStaysKnown) {
  use({lent("shop.*")});
  world.memory.logged_in = true;
  const std::string drop =
      op_msg(body(doc(string_field("drop", "orders") + string_field("$db", "shop"))));
  using Begun = std::pair<std::size_t, std::size_t>;  // before the reply, and with it
  const auto changes = [&](const std::string& reply) {
    store->changes.clear();
    EXPECT_EQ(world.request(drop), ActionKind::relay);
    const std::size_t begun = store->changes.size();
    EXPECT_EQ(world.reply_with(reply), ActionKind::relay);
    return Begun(begun, store->changes.size());
  };
  EXPECT_EQ(changes(kMayNot), Begun(1, 1));
  EXPECT_EQ(changes(kMayNot), Begun(0, 0)) << "others go on";
  EXPECT_EQ(changes(ok()), Begun(0, 1)) << "the right has been granted meanwhile";
  EXPECT_EQ(changes(kMayNot), Begun(0, 0));
  store->changes.clear();
  const std::string other =
      op_msg(body(doc(string_field("drop", "others") + string_field("$db", "shop"))));
  EXPECT_EQ(world.request(other), ActionKind::relay);
  EXPECT_EQ(store->changes.size(), 1U) << "it may drop that";
  EXPECT_EQ(world.reply_with(ok()), ActionKind::relay);
  EXPECT_EQ(world.request(drop), ActionKind::relay);
  EXPECT_EQ(store->changes.size(), 1U);
  world.exchange.reset();
  EXPECT_EQ(store->changes.size(), 2U) << "without an answer nobody knows";
  world.clock.advance(Rights::kRefused);
  EXPECT_EQ(changes(ok()), Begun(1, 1));
}

// ---- bulkWrite ---------------------------------------------------------------------------------

TEST_F(OutlinedExchange, EachCollectionOfABulkWriteThatGetsAValueIsAskedFor) {
  use({lent("shop.*")});
  const std::string kBulk =
      bulk(BulkForm::sequences, "",
           {insert_op(0, nth(0)), upsert_op(1, 5), delete_op(2, 1), insert_op(3, nth(1))},
           {ns_entry("shop.orders"), ns_entry("shop.a"), ns_entry("shop.b"), ns_entry("bank.c")});
  EXPECT_EQ(world.request(kBulk), ActionKind::ask_server);
  EXPECT_EQ(asked_for(), "insert orders");
  EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_server);
  EXPECT_EQ(asked_for(), "update a");
  EXPECT_EQ(world.reply_with(kMayNot), ActionKind::reply);
  EXPECT_EQ(world.exchange->facts().not_permitted->ns, "shop.a");
  EXPECT_EQ(world.counts(), "not_permitted=1");
  EXPECT_TRUE(store->asked.empty());
  EXPECT_TRUE(has(Right::insert)) << "into shop.orders";

  EXPECT_EQ(world.request(kBulk), ActionKind::ask_server);
  EXPECT_EQ(asked_for(), "update a");
  EXPECT_EQ(world.reply_with(n(0) + write_errors({write_error(0, 9)}) + ok()),
            ActionKind::ask_store);
  EXPECT_EQ(store->asked, (std::set<std::string>{"shop.orders", "shop.a"})) << "not shop.b";
}

/// The first scan knows no sequences, and does not look into the document.
TEST_F(OutlinedExchange, ABulkWriteThatProvesMalformedIsSentAsItCame) {
  Rule made = rule("shop.*", "n");
  made.strategy = std::make_shared<SequencedRule>(std::vector<std::string>{"customer.id"},
                                                  std::make_shared<Lendings>());
  use({std::move(made)});
  const std::string broken(
      "\x03"
      "customer\0"
      "\x08\0\0\0wa\0\0",
      18);
  const std::string kBulk =
      bulk(BulkForm::sequences, "", {insert_op(0, doc(broken))}, {ns_entry("shop.orders")});
  EXPECT_EQ(world.request(kBulk), ActionKind::ask_server);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::send);
  EXPECT_EQ(world.bytes(), kBulk);
  EXPECT_EQ(world.reply_with(failure(22, "malformed")), ActionKind::relay);
}

/// The right to insert is enough where nothing else is done, and has been shown before.
TEST_F(OutlinedExchange, ABulkWriteNeedsNoMoreThanItsOperationsDo) {
  use({lent("shop.*")});
  world.memory.rights.add("shop.orders", Right::insert, {});
  const std::string kBulk =
      bulk(BulkForm::sequences, "", {insert_op(0, nth(0))}, {ns_entry("shop.orders")});
  EXPECT_EQ(world.request(kBulk), ActionKind::ask_store);
  EXPECT_EQ(store->asked, (std::set<std::string>{"shop.orders"}));
  EXPECT_EQ(world.answer(numbers(7, 1)), ActionKind::send);
}

/// Whatever stands before it in the command.
TEST_F(OutlinedExchange, AnUpsertOfABulkWriteNeedsMoreThanInsert) {
  use({lent("shop.*")});
  world.memory.rights.add("shop.b", Right::insert, {});
  const std::string kBulk = bulk(BulkForm::sequences, "", {delete_op(0, 1), upsert_op(1, 5)},
                                 {ns_entry("shop.orders"), ns_entry("shop.b")});
  EXPECT_EQ(world.request(kBulk), ActionKind::ask_server);
  EXPECT_EQ(asked_for(), "update b");
  EXPECT_TRUE(store->asked.empty());
}

TEST_F(RightsExchange, WhereNobodyLogsInNothingIsAsked) {
  world.memory.logins = Logins::not_enforced;
  EXPECT_EQ(world.request(kInsert), ActionKind::ask_store);
}

}  // namespace exchange_rights_test
}  // namespace idproxy::rewrite
