// What an exchange does with a write that gets numbers of a sequence without gaps: it sends it in
// order and durably, knows which numbers are stored, and gives the others to the next documents.

#include "idproxy/rewrite/exchange.hpp"
#include "rewrite/turn_stage.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"
#include "support/lending_source.hpp"
#include "support/turn_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_turn_test {

using namespace test;
using namespace std::chrono_literals;
using ids::Errc;

constexpr Form kTurnForms[] = {Form::sequence, Form::array};
const std::string kMajority =
    doc_field("writeConcern", string_field("w", "majority") + bool_field("j", true));
const std::string kPrimary = doc_field("writeConcern", int_field("w", 1));
const std::string kOrdered = bool_field("ordered", true);
// The first retry of a document pauses for 0.5 ms and a random part of another 0.5 ms.
const std::string kNoJitter = "0000000000000000";
constexpr auto kPause = 500us;

std::string numbered(std::int32_t i, std::int64_t number) {
  return doc(int_field("x", i) + long_field("number", number));
}
std::vector<std::string> all(std::int32_t from, std::int32_t to) {
  std::vector<std::string> documents;
  for (std::int32_t i = from; i < to; ++i) documents.push_back(nth(i));
  return documents;
}
/// With numbers from `first` on.
std::vector<std::string> all(std::int32_t from, std::int32_t to, std::int64_t first) {
  std::vector<std::string> documents;
  for (std::int32_t i = from; i < to; ++i) documents.push_back(numbered(i, first + i - from));
  return documents;
}
/// A command of the proxy. `options`: the client's, without those that are replaced.
std::string in_turn(const std::string& options, const std::vector<std::string>& documents,
                    const std::vector<std::int32_t>& statements = {},
                    const std::string& concern = kMajority) {
  return part(options + kOrdered + concern, documents, statements);
}

class InTurn : public ::testing::Test {
 protected:
  ExchangeScript::Rules rules(std::int64_t next = 1, bool is_known = true) {
    return [this, next, is_known] {
      turns = std::make_shared<Turns>();
      turns->next = next;
      turns->is_known = is_known;
      return rule_set_of(sequenced());
    };
  }
  [[nodiscard]] Rule sequenced() const {
    Rule result = rule("shop.*", "number");
    result.strategy_name = "gapless";
    result.strategy = std::make_shared<TurnRule>(turns);
    return result;
  }
  std::shared_ptr<Turns> turns;
};

TEST_F(InTurn, SendsInOrderAndWaitsForAMajority) {
  for (const Form form : kTurnForms) {
    ExchangeScript(rules(7))
        .request(client(form, kUnordered, all(0, 2)))
        .sends(in_turn("", all(0, 2, 7)))
        .reply(n(2) + ok())
        .relays()
        .counts("assigned=2")
        .play();
    ExchangeWorld world(rules(7)());
    EXPECT_EQ(world.request(client(form, "", all(0, 2))), ActionKind::send);
    EXPECT_EQ(world.reply_with(n(2) + ok()), ActionKind::relay);
    world.exchange.reset();
    EXPECT_EQ(turns->calls, "sent; 2 stored; end; ");
  }
}

TEST_F(InTurn, AsksForItsTurn) {
  ExchangeScript(rules(1, false))
      .request(client(Form::sequence, "", all(0, 3)))
      .asks(3)
      .granted(41)
      .sends_first(in_turn("", all(0, 3, 41)))
      .reply(n(3) + ok())
      .relays()
      .counts("assigned=3")
      .play();
  const std::string text =
      "mongo-idproxy: no value for field 'number' of shop.orders (strategy gapless): the reason";
  ExchangeScript(rules(1, false))
      .request(client(Form::sequence, "", all(0, 3)))
      .asks(3)
      .refused(Errc::unavailable)
      .replies(ok(0) + string_field("errmsg", text) + int_field("code", 6) +
               string_field("codeName", "HostUnreachable"))
      .counts("")
      .play();
}

TEST_F(InTurn, KeepsWhatTheClientAsksOfAWriteConcern) {
  const auto concern = [](const std::string& fields) { return doc_field("writeConcern", fields); };
  const struct {
    std::string client;
    std::string sent;
    bool stays = true;
  } rows[] = {
      {concern(int_field("w", 1)), kMajority},
      {concern(bool_field("j", false) + int_field("wtimeout", 9)),
       concern(string_field("w", "majority") + bool_field("j", false) + int_field("wtimeout", 9))},
      {concern(string_field("w", "majority")), kMajority},
      {concern(int_field("w", 3)), concern(int_field("w", 3)), false},
      {concern(string_field("w", "here")), concern(string_field("w", "here")), false},
  };
  for (const auto& row : rows) {
    ExchangeWorld world(rules()());
    EXPECT_EQ(world.request(client(Form::sequence, row.client, all(0, 1))), ActionKind::send);
    EXPECT_EQ(world.bytes(), in_turn("", all(0, 1, 1), {}, row.sent));
    EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
    EXPECT_EQ(turns->calls, row.stays ? "sent; 1 stored; " : "sent; 1 stored for now; ");
  }
}

TEST_F(InTurn, RaisesWhatIsAMajorityOfTheSet) {
  const auto w = [](std::int32_t members) {
    return doc_field("writeConcern", int_field("w", members));
  };
  const struct {
    std::size_t members;
    std::size_t hosts;
    std::size_t arbiters;
    std::int32_t w;
    std::string sent;
    bool stays = true;
  } rows[] = {
      {3, 3, 0, 2, kMajority},   {5, 5, 0, 2, kMajority},   {3, 2, 1, 2, kMajority},
      {3, 3, 0, 3, w(3), false}, {4, 2, 0, 3, w(3), false}, {0, 0, 0, 3, w(3), false},
  };
  for (const auto& row : rows) {
    ExchangeWorld world(rules()());
    HelloReply set;
    set.members.resize(row.members);
    set.hosts = row.hosts;
    set.arbiters = row.arbiters;
    world.memory.majority = set.majority();
    EXPECT_EQ(world.request(client(Form::sequence, w(row.w), all(0, 1))), ActionKind::send);
    EXPECT_EQ(world.bytes(), in_turn("", all(0, 1, 1), {}, row.sent)) << row.w;
    EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
    EXPECT_EQ(turns->calls, row.stays ? "sent; 1 stored; " : "sent; 1 stored for now; ");
  }
}

TEST_F(InTurn, RefusesWhatDoesNotTellWhatIsStored) {
  const std::string zero = doc_field("writeConcern", int_field("w", 0));
  ExchangeWorld world(rules()());
  EXPECT_EQ(world.request(client(Form::sequence, zero, all(0, 1))), ActionKind::reply);
  EXPECT_NE(world.body().find("{w: 0}"), std::string::npos);
  EXPECT_EQ(world.request(insert_sequence(all(0, 1), wire::flag::kMoreToCome)), ActionKind::reply);
  EXPECT_EQ(world.bytes(), "");
  EXPECT_EQ(world.request(client(Form::sequence, kOrdered + kOrdered, all(0, 1))),
            ActionKind::reply);
  EXPECT_NE(world.body().find("several commands"), std::string::npos);
  EXPECT_EQ(turns->calls, "");
}

/// An insert of the first document that asks whether an earlier attempt has stored it.
std::string question(const std::string& options, const std::string& document,
                     std::int32_t statement) {
  const std::string uuid = element(bson::Type::binary, "collectionUUID",
                                   std::string("\x10\0\0\0\x04", 5) + std::string(16, 'U'));
  return in_turn(options, {document}, {statement}, kPrimary + uuid);
}
const std::string kRandomUuid = "55555555555555555555555555555555";
const std::string kNotExecuted = n(0) + write_errors({write_error(0, 361)}) + ok();
const std::string kNotKnown =
    ok(0) + int_field("code", 40415) + string_field("errmsg", "unknown field 'collectionUUID'");

TEST_F(InTurn, AsksWhetherARetryableBatchIsNew) {
  for (const Form form : kTurnForms) {
    ExchangeScript(rules(), kRandomUuid)
        .request(client(form, kTxnNumber, all(0, 3)))
        .sends(question(kTxnNumber, numbered(0, 1), 0))
        .told(kNotExecuted)
        .sends_as_the_client(in_turn(kTxnNumber, all(0, 3, 1), {0, 1, 2}))
        .reply(n(3) + ok())
        .relays()
        .counts("assigned=3")
        .play();
  }
  // The first one fails, which says nothing of the others.
  const std::string invalid = write_error(0, 121);
  ExchangeScript(rules(), kRandomUuid)
      .request(client(Form::sequence, kUnordered + kTxnNumber, all(0, 4)))
      .sends(question(kTxnNumber, numbered(0, 1), 0))
      .told(kNotExecuted)
      .sends_as_the_client(in_turn(kTxnNumber, all(0, 4, 1), {0, 1, 2, 3}))
      .reply(n(0) + write_errors({invalid}) + ok())
      .sends(in_turn(kTxnNumber, {numbered(1, 1)}, {1}))
      .reply(n(1) + ok())
      .sends(in_turn(kTxnNumber, all(2, 4, 2), {2, 3}))
      .reply(n(2) + ok())
      .replies(n(3) + write_errors({invalid}) + ok())
      .counts("assigned=4")
      .play();
}

/// An earlier attempt may have stored the first of them, which the server then skips.
TEST_F(InTurn, TriesTheFirstDocumentOfARetryableBatchAlone) {
  for (const Form form : kTurnForms) {
    ExchangeScript(rules(), kRandomUuid)
        .request(client(form, kTxnNumber, all(0, 3)))
        .sends(question(kTxnNumber, numbered(0, 1), 0))
        .told(kNotKnown)
        .sends_as_the_client(in_turn(kTxnNumber, all(0, 1, 1), {0}, kPrimary))
        .reply(n(1) + ok())
        .sends(in_turn(kTxnNumber, all(1, 3, 2), {1, 2}))
        .reply(n(2) + ok())
        .replies(n(3) + ok())
        .counts("assigned=3")
        .in_parts()
        .play();
  }
  ExchangeScript(rules(), kRandomUuid)
      .request(client(Form::sequence, kTxnNumber, all(0, 4)))
      .sends(question(kTxnNumber, numbered(0, 1), 0))
      .told(n(1) + numbers_field("retriedStmtIds", {0}) + ok())
      .sends_as_the_client(in_turn(kTxnNumber, all(0, 1, 1), {0}, kPrimary))
      .reply(n(1) + numbers_field("retriedStmtIds", {0}) + ok())
      .sends(in_turn(kTxnNumber, {numbered(1, 1)}, {1}))
      .reply(n(1) + numbers_field("retriedStmtIds", {1}) + ok())
      .sends(in_turn(kTxnNumber, {numbered(2, 1)}, {2}))
      .reply(n(1) + ok())
      .sends(in_turn(kTxnNumber, {numbered(3, 2)}, {3}))
      .reply(n(1) + ok())
      .replies(n(4) + numbers_field("retriedStmtIds", {0, 1}) + ok())
      .counts("assigned=4")
      .in_parts()
      .play();
}

TEST_F(InTurn, AsksAnOldServerWhatItHasExecuted) {
  constexpr std::int32_t k5_0 = 13;
  const auto asked = [&](const std::string& answer) {
    ExchangeScript script(rules());
    script.of_server(k5_0)
        .request(client(Form::sequence, kTxnNumber, all(0, 4)))
        .sends(asks_about({0, 1, 2, 3}))
        .told(answer);
    return script;
  };
  asked(executed({}))
      .sends_as_the_client(in_turn(kTxnNumber, all(0, 4, 1), {0, 1, 2, 3}))
      .reply(n(4) + ok())
      .relays()
      .counts("assigned=4")
      .play_once();
  // The number of the first document goes to the next one.
  asked(executed({0}))
      .sends_as_the_client(in_turn(kTxnNumber, all(0, 1, 1), {0}, kPrimary))
      .reply(n(1) + ok())
      .sends(in_turn(kTxnNumber, {numbered(1, 1)}, {1}))
      .reply(n(1) + ok())
      .sends(in_turn(kTxnNumber, all(2, 4, 2), {2, 3}))
      .reply(n(2) + ok())
      .replies(n(4) + ok())
      .counts("assigned=4")
      .play_once();
  // It does not tell: the next number is known again after a look at the collection.
  asked(failure(13, "not authorized"))
      .sends_as_the_client(in_turn(kTxnNumber, all(0, 1, 1), {0}, kPrimary))
      .reply(n(1) + ok())
      .asks(3)
      .granted(2)
      .sends(in_turn(kTxnNumber, {numbered(1, 2)}, {1}))
      .reply(n(1) + ok())
      .asks(2)
      .granted(2)
      .sends(in_turn(kTxnNumber, {numbered(2, 2)}, {2}))
      .reply(n(1) + ok())
      .asks(1)
      .granted(3)
      .sends(in_turn(kTxnNumber, {numbered(3, 3)}, {3}))
      .reply(n(1) + ok())
      .replies(n(4) + ok())
      .counts("assigned=4")
      .play_once();
}

TEST_F(InTurn, HandsOutNoNumbersWithoutADocument) {
  ExchangeWorld world(rules()());
  world.memory.rights.add("shop.orders", Right::insert, world.clock.monotonic());
  EXPECT_EQ(world.request(next_value_of("number")), ActionKind::reply);
  EXPECT_NE(world.body().find("its numbers are for documents that are being stored"),
            std::string::npos);
  EXPECT_EQ(world.counts(), "");
  EXPECT_EQ(turns->calls, "");
}

TEST_F(InTurn, GivesTheNumberOfAFailedDocumentToTheNext) {
  const std::string invalid = write_error(1, 121);
  ExchangeScript(rules())
      .request(client(Form::sequence, kUnordered, all(0, 4)))
      .sends(in_turn("", all(0, 4, 1)))
      .reply(n(1) + write_errors({invalid}) + ok())
      .sends(in_turn("", all(2, 4, 2)))
      .reply(n(1) + write_errors({duplicate(1, {"mail"})}) + ok())
      .replies(n(2) + write_errors({invalid, duplicate(3, {"mail"})}) + ok())
      .counts("assigned=4 foreign=1")
      .play();
  ExchangeScript(rules())
      .request(client(Form::sequence, "", all(0, 4)))
      .sends(in_turn("", all(0, 4, 1)))
      .reply(n(1) + write_errors({invalid}) + ok())
      .relays()
      .counts("assigned=4")
      .play();
  ExchangeWorld world(rules()());
  world.request(client(Form::sequence, "", all(0, 4)));
  world.reply_with(n(1) + write_errors({invalid}) + ok());
  world.exchange.reset();
  EXPECT_EQ(turns->calls, "sent; 1 stored; end; ");
}

TEST_F(InTurn, LooksAgainAfterAnErrorThatMayHideAWrite) {
  ExchangeScript(rules())
      .request(client(Form::sequence, kUnordered, all(0, 3)))
      .sends(in_turn("", all(0, 3, 1)))
      .reply(n(1) + write_errors({write_error(1, 6)}) + ok())
      .asks(1)
      .granted(3)
      .sends(in_turn("", {numbered(2, 3)}))
      .reply(n(1) + ok())
      .replies(n(2) + write_errors({write_error(1, 6)}) + ok())
      .counts("assigned=3")
      .play();
}

TEST_F(InTurn, RenumbersWhenItsNumbersAreTaken) {
  for (const std::string& options : {std::string(), kUnordered}) {
    ExchangeScript(rules(), kNoJitter)
        .request(client(Form::sequence, options, all(0, 3)))
        .sends(in_turn("", all(0, 3, 1)))
        .reply(n(1) + write_errors({duplicate(1, {"number"})}) + ok())
        .waits(kPause)
        .resume()
        .asks(2)
        .granted(8)
        .sends(in_turn("", all(1, 3, 8)))
        .reply(n(2) + ok())
        .replies(n(3) + ok())
        .counts("assigned=3 resent=1 cured=1")
        .play();
  }
  ExchangeWorld world(rules()(), kNoJitter);
  world.request(client(Form::sequence, "", all(0, 3)));
  EXPECT_EQ(world.reply_with(n(1) + write_errors({duplicate(1, {"number"})}) + ok()),
            ActionKind::wait);
  EXPECT_EQ(turns->calls, "sent; 1 stored; taken; ");
}

TEST_F(InTurn, GivesUpWhenThereAreNoOtherNumbers) {
  const std::string taken = duplicate(1, {"number"});
  ExchangeScript(rules(), kNoJitter)
      .request(client(Form::sequence, "", all(0, 3)))
      .sends(in_turn("", all(0, 3, 1)))
      .reply(n(1) + write_errors({taken}) + ok())
      .waits(kPause)
      .resume()
      .asks(2)
      .refused(Errc::unavailable)
      .replies(n(1) + write_errors({taken}) + ok())
      .counts("assigned=3 given_up=1", "number")
      .play();
  // The last document was never sent, which only an error of the whole command can say.
  ExchangeWorld world(rules()(), kNoJitter);
  world.request(client(Form::sequence, kUnordered, all(0, 3)));
  world.reply_with(n(1) + write_errors({taken}) + ok());
  EXPECT_EQ(world.resume(), ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Error{Errc::unavailable, "down"}), ActionKind::reply);
  EXPECT_NE(world.body().find("no value for field 'number'"), std::string::npos);
}

TEST_F(InTurn, WorksBesideOtherRules) {
  std::shared_ptr<Lending> lending;
  const auto both = [&] {
    turns = std::make_shared<Turns>();
    lending = std::make_shared<Lending>();
    Rule lent = rule("shop.*", "code");
    lent.strategy = shared_source<LendingSource>(lending);
    return rule_set_of(sequenced(), std::move(lent));
  };
  const auto with = [](std::int32_t i, std::int64_t number, std::int64_t code) {
    return doc(int_field("x", i) + long_field("number", number) + long_field("code", code));
  };
  ExchangeScript(both)
      .request(client(Form::sequence, "", all(0, 3)))
      .asks(3)
      .granted(70)
      .sends_first(in_turn("", {with(0, 1, 70), with(1, 2, 71), with(2, 3, 72)}))
      .reply(n(1) + write_errors({duplicate(1, {"code"})}) + ok())
      .asks(1)
      .granted(90)
      .sends(in_turn("", {with(1, 2, 90), with(2, 3, 72)}))
      .reply(n(2) + ok())
      .replies(n(3) + ok())
      .counts("assigned=6 resent=1 cured=1")
      .play();
  // The code goes back if there is no number.
  ExchangeWorld world(both());
  world.request(client(Form::sequence, "", all(0, 1)));
  turns->errors = {{Errc::exhausted, "at its end"}};
  EXPECT_EQ(world.answer(ids::Grant(nullptr, {{70, 1}})), ActionKind::reply);
  EXPECT_EQ(lending->calls, "back 70; ");
  EXPECT_EQ(world.counts(), "");
}

TEST_F(InTurn, GivesOtherValuesBackWhenTheClientLeaves) {
  auto lending = std::make_shared<Lending>();
  lending->at_hand = 1;
  turns = std::make_shared<Turns>();
  turns->is_known = false;
  Rule lent = rule("shop.*", "code");
  lent.strategy = shared_source<LendingSource>(lending);
  ExchangeWorld world(rule_set_of(sequenced(), std::move(lent)));
  EXPECT_EQ(world.request(client(Form::sequence, "", all(0, 1))), ActionKind::ask_store);
  world.exchange.reset();
  EXPECT_EQ(lending->calls, "back 1; ");
  EXPECT_EQ(turns->calls, "end; ");
}

/// It only asks whether the statements were executed before.
TEST_F(InTurn, SendsNothingWithAQuestion) {
  auto lending = std::make_shared<Lending>();
  lending->at_hand = 2;
  turns = std::make_shared<Turns>();
  Rule lent = rule("shop.*", "code");
  lent.strategy = shared_source<LendingSource>(lending);
  ExchangeWorld world(rule_set_of(sequenced(), std::move(lent)), kRandomUuid);
  const std::string options = kTxnNumber + int_field("maxTimeMS", 50);
  EXPECT_EQ(world.request(client(Form::sequence, options, all(0, 2))), ActionKind::send);
  EXPECT_TRUE(world.exchange->awaits_reply());
  world.clock.advance(50ms);
  EXPECT_EQ(world.reply_with(kNotExecuted), ActionKind::reply);
  EXPECT_EQ(lending->calls, "back 1 2; ");
  EXPECT_EQ(turns->calls, "");
  EXPECT_EQ(world.counts(), "");
}

TEST_F(InTurn, TellsWhatItDoesNotKnow) {
  const struct {
    const char* name;
    std::string reply;
    std::string calls;
  } rows[] = {
      {"not replicated", n(1) + doc_field("writeConcernError", int_field("code", 64)) + ok(),
       "sent; 1 stored for now; "},
      {"stepped down", failure(10107, "not primary"), "sent; lost; "},
      {"not authorized", failure(13, "not authorized"), "sent; 0 stored for now; "},
      {"executed earlier", n(1) + numbers_field("retriedStmtIds", {0}) + ok(), "sent; 0 stored; "},
      {"nonsense", n(77) + ok(), "sent; "},
  };
  for (const auto& row : rows) {
    ExchangeWorld world(rules()());
    EXPECT_EQ(world.request(client(Form::sequence, kTxnNumber, all(0, 1))), ActionKind::send);
    EXPECT_EQ(world.reply_with(row.reply), ActionKind::relay) << row.name;
    EXPECT_EQ(turns->calls, row.calls) << row.name;
  }
}

// ---- transactions ----------------------------------------------------------------------------

const std::string kSession = doc_field("lsid", string_field("id", "s"));

TEST_F(InTurn, LeavesATransactionsWritesAsTheyAre) {
  const std::string options = kSession + kTransaction;
  ExchangeScript(rules())
      .request(client(Form::sequence, options, all(0, 2)))
      .sends(part(options, all(0, 2, 1)))
      .reply(n(2) + ok())
      .relays()
      .counts("assigned=2")
      .play();
  ExchangeWorld world(rules()());
  world.request(client(Form::sequence, options, all(0, 2)));
  world.reply_with(n(2) + ok());
  EXPECT_EQ(turns->calls, "in a transaction; sent; 2 stored; ");
  EXPECT_EQ(world.request(client(Form::sequence, options, all(0, 2))), ActionKind::send);
  turns->calls.clear();
  EXPECT_EQ(world.reply_with(n(0) + write_errors({duplicate(0, {"number"})}) + ok()),
            ActionKind::reply);
  EXPECT_EQ(turns->calls, "lost; ");
  EXPECT_NE(world.body().find("TransientTransactionError"), std::string::npos);
  world.request(client(Form::sequence, options, all(0, 2)));
  turns->calls.clear();
  EXPECT_EQ(world.answer(ids::Grant(nullptr, {{5, 2}})), ActionKind::send);
  EXPECT_EQ(world.reply_with(failure(112, "WriteConflict")), ActionKind::relay);
  EXPECT_EQ(turns->calls, "sent; lost; ");
}

class EndStore final : public FakeStore {
 public:
  void transaction_ended(const std::string& transaction, bool is_durable) override {
    ended.push_back(transaction);
    durable = is_durable;
  }
  std::vector<std::string> ended;
  bool durable = false;
};

std::string command(const std::string& name, const std::string& options, std::uint32_t flags = 0) {
  return op_msg(body(doc(int_field(name, 1) + options + string_field("$db", "admin"))), flags);
}

TEST_F(InTurn, TellsTheStoreWhenATransactionEnds) {
  turns = std::make_shared<Turns>();
  const auto store = std::make_shared<EndStore>();
  std::vector<Rule> all_rules;
  all_rules.push_back(sequenced());
  ExchangeWorld world(std::make_shared<const RuleSet>(std::move(all_rules), "idproxy", store));
  std::size_t ended = 0;
  for (const char* name : {"commitTransaction", "abortTransaction"}) {
    for (const std::string& reply : {ok(), failure(251, "NoSuchTransaction")}) {
      EXPECT_EQ(world.request(command(name, kSession + kTransaction)), ActionKind::relay);
      ASSERT_NE(world.exchange, nullptr);
      EXPECT_TRUE(world.exchange->awaits_reply());
      EXPECT_EQ(store->ended.size(), ended) << "not before the server has answered";
      EXPECT_EQ(world.reply_with(reply), ActionKind::relay);
      EXPECT_EQ(store->ended.size(), ++ended);
    }
  }
  EXPECT_EQ(store->ended.front(), store->ended.back());
  EXPECT_EQ(store->ended.front(), transaction_of(as_bytes(doc(kTxnNumber + kSession))))
      << "that its writes have, too";
  EXPECT_EQ(
      world.request(command("commitTransaction", kSession + kTransaction, wire::flag::kMoreToCome)),
      ActionKind::relay);
  EXPECT_FALSE(world.exchange->awaits_reply());
}

TEST_F(InTurn, TellsTheStoreWhetherATransactionIsThereForGood) {
  turns = std::make_shared<Turns>();
  const auto store = std::make_shared<EndStore>();
  std::vector<Rule> all_rules;
  all_rules.push_back(sequenced());
  ExchangeWorld world(std::make_shared<const RuleSet>(std::move(all_rules), "idproxy", store));
  world.memory.majority = 2;
  world.memory.wire_version = 0;
  const auto is_durable = [&](const std::string& name, const std::string& options,
                              const std::string& reply) {
    EXPECT_EQ(world.request(command(name, kSession + kTransaction + options)), ActionKind::relay);
    EXPECT_EQ(world.reply_with(reply), ActionKind::relay);
    return store->durable;
  };
  const auto concern = [](const std::string& w) { return doc_field("writeConcern", w); };
  EXPECT_TRUE(is_durable("commitTransaction", concern(string_field("w", "majority")), ok()));
  EXPECT_TRUE(is_durable("commitTransaction", concern(int_field("w", 3)), ok()));
  EXPECT_FALSE(is_durable("commitTransaction", concern(int_field("w", 1)), ok()));
  EXPECT_FALSE(is_durable("commitTransaction", "", ok())) << "of an unknown version";
  world.memory.wire_version = server_release::k5_0;
  EXPECT_TRUE(is_durable("commitTransaction", "", ok()));
  EXPECT_FALSE(is_durable("abortTransaction", "", ok()));
  EXPECT_FALSE(is_durable("commitTransaction", "", failure(251, "NoSuchTransaction")));
  EXPECT_FALSE(is_durable("commitTransaction", "",
                          doc_field("writeConcernError", int_field("code", 64)) + ok()));
}

TEST_F(InTurn, LeavesOtherTransactionsAlone) {
  const auto relays = [](const std::shared_ptr<const RuleSet>& set, const std::string& bytes) {
    Namespaces namespaces(set);
    const auto decision =
        classify(wire::read_header(as_bytes(bytes)), as_bytes(bytes), namespaces, X509::allowed);
    return std::holds_alternative<decision::Relay>(decision);
  };
  const std::string whole = command("commitTransaction", kSession + kTransaction);
  EXPECT_TRUE(relays(rule_set(), whole)) << "no rule has to know";
  EXPECT_FALSE(relays(rules()(), whole));
  EXPECT_TRUE(relays(rules()(), command("commitTransaction", kTransaction))) << "no session";
  EXPECT_TRUE(relays(rules()(), command("commitTransaction", kSession))) << "no number";
}

// ---- upserts ---------------------------------------------------------------------------------

TEST_F(InTurn, SendsUpsertsOneByOne) {
  const auto with = [](std::int32_t k, std::int64_t number) {
    return upsert(k, long_field("number", number));
  };
  const auto sent = [](const std::string& statement) {
    return update_sequence(kOrdered + kMajority, {statement});
  };
  ExchangeScript(rules())
      .request(update_sequence(kUnordered, {upsert(0), upsert(1), upsert(2)}))
      .sends(sent(with(0, 1)))
      .reply(n(1) + upserted({{0, 50}}) + modified(0) + ok())
      .sends(sent(with(1, 2)))
      .reply(n(1) + modified(1) + ok())
      .sends(sent(with(2, 2)))
      .reply(n(1) + upserted({{0, 52}}) + modified(0) + ok())
      .replies(n(3) + upserted({{0, 50}, {2, 52}}) + modified(1) + ok())
      .counts("assigned=3")
      .in_parts()
      .play_once();
  EXPECT_EQ(turns->calls, "sent; 1 stored; sent; 0 stored; sent; 1 stored; end; ");
}

TEST_F(InTurn, SendsAFindAndModify) {
  const std::string on_insert = long_field("number", 1);
  ExchangeWorld world(rules()(), kNoJitter);
  EXPECT_EQ(world.request(find_and_modify(kPrimary)), ActionKind::send);
  const std::string bytes = world.bytes();
  EXPECT_NE(bytes.find(kMajority), std::string::npos);
  EXPECT_EQ(bytes.find(kPrimary), std::string::npos);
  EXPECT_NE(bytes.find(doc_field("$setOnInsert", on_insert)), std::string::npos);
  EXPECT_EQ(world.reply_with(failure(11000, "E11000", {}) +
                             doc_field("keyPattern", int_field("number", 1))),
            ActionKind::wait);
  EXPECT_EQ(world.resume(), ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Grant(nullptr, {{9, 1}})), ActionKind::send);
  EXPECT_NE(world.bytes().find(doc_field("$setOnInsert", long_field("number", 9))),
            std::string::npos);
  EXPECT_EQ(world.reply_with(
                doc_field("lastErrorObject", n(1) + bool_field("updatedExisting", true)) + ok()),
            ActionKind::reply);
  world.exchange.reset();
  EXPECT_EQ(turns->calls, "sent; 0 stored for now; taken; sent; 0 stored; end; ");
}

}  // namespace exchange_turn_test
}  // namespace idproxy::rewrite
