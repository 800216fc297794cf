// What an exchange does with an insert whose values are reserved (docs/reserve.md): it reserves
// them before it sends the documents, and lets go of those that are certainly not stored.

#include "idproxy/rewrite/exchange.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_reservations.hpp"
#include "support/lending_source.hpp"
#include "support/turn_source.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_reserve_test {

using namespace test;
using ids::Errc;

constexpr Form kForms[] = {Form::sequence, Form::array};

class NoWaiter final : public ids::Waiter {
 public:
  void answered(ids::Result<ids::Grant> /*grant*/) override {}
};

/// {_id: <id>, x: <i>, number: <number>}, as it is stored.
std::string stored(std::int64_t id, std::int32_t i, std::int64_t number) {
  return doc(long_field("_id", id) + int_field("x", i) + long_field("number", number));
}
/// What mongod gets in place of a document that it must refuse.
const std::string kRefused = text_of(refused_document());
/// mongod's error for it.
std::string refused_error(std::int32_t index) {
  return write_error(index, 53, string_field("errmsg", "no array"));
}
/// The proxy's error in its place.
std::string taken_error(std::int32_t index, const std::string& number_field,
                        const std::string& shown) {
  return write_error(
      index, 11000,
      string_field("errmsg",
                   "E11000 duplicate key error collection: shop.orders index: number reserved in "
                   "shop.numbers dup key: { number: " +
                       shown + " }") +
          doc_field("keyPattern", int_field("number", 1)) + doc_field("keyValue", number_field));
}

/// A rule whose numbers 1, 2, … are reserved; documents without `_id` get 101, 102, …
class Reserve : public ::testing::Test {
 protected:
  std::shared_ptr<const RuleSet> rules(std::vector<Rule> others = {}) {
    std::vector<Rule> all = std::move(others);
    all.push_back(numbers);
    return std::make_shared<const RuleSet>(std::move(all), "idproxy",
                                           std::make_shared<ReservingStore>(collection));
  }
  void SetUp() override {
    numbers = rule("shop.orders", "number");
    numbers.strategy_name = "lending";
    numbers.strategy = shared_source<LendingSource>(lending);
    ids->next = 101;
    ids->at_hand = 100;
    lending->at_hand = 100;
    numbers.id_strategy = shared_source<LendingSource>(ids);
    numbers.reserve.emplace();
    numbers.reserve->db = "shop";
    numbers.reserve->collection = "numbers";
    numbers.reserve->parent_ns = "shop.orders";
    numbers.reserve->parent_field = "number";
  }
  /// Has the fake collection carry out the question that the exchange asks, and answers it.
  ActionKind reserve(ExchangeWorld& world) {
    ask(world);
    collection->answer();
    return world.answer(ids::Grant());
  }
  static void ask(ExchangeWorld& world) {
    const auto& question = world.last<action::AskStore>();
    static_cast<void>(question.strategy->ask(question.count, std::make_unique<NoWaiter>()));
  }

  std::shared_ptr<Lending> lending = std::make_shared<Lending>();
  std::shared_ptr<Lending> ids = std::make_shared<Lending>();
  std::shared_ptr<FakeReservations> collection = std::make_shared<FakeReservations>();
  Rule numbers;
};

TEST_F(Reserve, ReservesABatchAtOnceBeforeItIsSent) {
  for (const Form form : kForms) {
    SetUp();
    lending->next = 1;
    *collection = FakeReservations();
    ExchangeWorld world(rules());
    EXPECT_EQ(world.request(client(form, "", {nth(0), nth(1), nth(2, 77)})), ActionKind::ask_store);
    EXPECT_EQ(world.last<action::AskStore>().count, 3U);
    EXPECT_EQ(reserve(world), ActionKind::send);
    EXPECT_EQ(world.bytes(), part("", {stored(101, 0, 1), stored(102, 1, 2), stored(77, 2, 3)}));
    EXPECT_EQ(world.reply_with(n(3) + ok()), ActionKind::relay);
    world.exchange.reset();
    EXPECT_EQ(collection->calls, "reserve 1=101 2=102 3=77; ");
    EXPECT_EQ(world.counts(), "assigned=3");
  }
}

TEST_F(Reserve, ReservesTheClientsOwnValues) {
  ExchangeWorld world(rules());
  const std::string own = doc(int_field("_id", 7) + string_field("number", "A-1"));
  EXPECT_EQ(world.request(client(Form::sequence, kTxnNumber, {own})), ActionKind::ask_store);
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.bytes(), part(kTxnNumber, {own}, {0}));
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
  world.exchange.reset();
  EXPECT_EQ(collection->calls, "reserve A-1=7; ");
  EXPECT_EQ(world.counts(), "");
}

/// One command reserves values of several clients, and the server would refuse all of it.
TEST_F(Reserve, WhatTheServerRefusesIsNotReserved) {
  numbers.when.push_back({"x", std::nullopt, {long_field("", 0)}});
  numbers.field = numbers.reserve->parent_field = "invoice.number";
  ExchangeWorld world(rules());
  const std::string in_array =
      doc(int_field("_id", 7) + array_field("invoice", {doc(int_field("number", 1))}));
  const std::string malformed("\x08\0\0\0wa\0\0", 8);
  const std::string own =
      doc(int_field("_id", 7) + doc_field("invoice", std::string("\x03number\0", 8) + malformed));
  const std::string id = doc(std::string("\x03_id\0", 5) + malformed +
                             doc_field("invoice", string_field("number", "A-1")));
  const std::string neither =  // true nor false
      doc(int_field("_id", 7) + doc_field("invoice", std::string("\x08number\0\x02", 9)));
  for (const std::string& each : {in_array, own, id, neither}) {
    EXPECT_EQ(world.request(client(Form::sequence, "", {each})), ActionKind::send);
    EXPECT_EQ(world.bytes(), part("", {each}));
    EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
  }
  EXPECT_EQ(collection->calls, "");
}

/// mongod stores these deprecated types, but nobody looks into them.
TEST_F(Reserve, RefusesCodeWithScopeAndDbPointer) {
  ExchangeWorld world(rules());
  const std::string code = i32(16) + i32(3) + std::string("f;\0", 3) + doc();
  const std::string pointer = i32(2) + std::string("a\0", 2) + std::string(12, '\1');
  for (const auto& [type, value] :
       {std::pair(bson::Type::code_with_scope, code), std::pair(bson::Type::db_pointer, pointer)}) {
    const std::string id = int_field("_id", 7);
    const std::string nested = element(type, "x", value);
    for (const std::string& each :
         {doc(id + element(type, "number", value)), doc(id + doc_field("number", nested)),
          doc(doc_field("_id", nested) + string_field("number", "A-1")),
          doc(doc_field("_id", nested) + int_field("x", 1))}) {
      EXPECT_EQ(world.request(client(Form::sequence, "", {each})), ActionKind::send);
      EXPECT_EQ(world.bytes(), part("", {kRefused}));
      EXPECT_EQ(world.reply_with(n(0) + write_errors({refused_error(0)}) + ok()),
                ActionKind::reply);
      EXPECT_NE(world.body().find(int_field("code", 96)), std::string::npos);
      EXPECT_NE(world.body().find("the value of 'number' cannot be reserved: it or the _id holds "
                                  "code with scope or a DBPointer"),
                std::string::npos);
    }
    const std::string beside = doc(id + int_field("number", 9) + element(type, "x", value));
    EXPECT_EQ(world.request(client(Form::sequence, "", {beside})), ActionKind::ask_store);
  }
  EXPECT_EQ(collection->calls, "");
}

/// The rule for `_id` gives one to some documents; the others get that of the reservation.
TEST_F(Reserve, ReservesForDocumentsThatARuleForIdsLeavesOut) {
  const auto others = std::make_shared<Lending>();
  others->next = 201;
  others->at_hand = 100;
  Rule id = rule("shop.orders", "_id");
  id.strategy = shared_source<LendingSource>(others);
  id.when.push_back({"x", std::nullopt, {long_field("", 0)}});
  ExchangeWorld world(rules({std::move(id)}));
  const std::string own = doc(int_field("x", 1) + string_field("number", "A-1"));
  EXPECT_EQ(world.request(client(Form::sequence, "", {nth(0), nth(1), own})),
            ActionKind::ask_store);
  EXPECT_EQ(reserve(world), ActionKind::send);
  const std::string kept =
      doc(long_field("_id", 102) + int_field("x", 1) + string_field("number", "A-1"));
  EXPECT_EQ(world.bytes(), part("", {stored(201, 0, 1), stored(101, 1, 2), kept}));
  EXPECT_EQ(world.reply_with(n(3) + ok()), ActionKind::relay);
  world.exchange.reset();
  EXPECT_EQ(collection->calls, "reserve 1=201 2=101 A-1=102; ");
}

TEST_F(Reserve, TakesAnotherNumberWhereOneIsTaken) {
  collection->all = {{"1", "x"}, {"3", "y"}, {"4", "z"}};
  ExchangeWorld world(rules());
  world.request(client(Form::sequence, kUnordered, {nth(0), nth(1), nth(2)}));
  EXPECT_EQ(reserve(world), ActionKind::ask_store);
  EXPECT_EQ(world.last<action::AskStore>().count, 2U);
  EXPECT_EQ(reserve(world), ActionKind::ask_store);
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.bytes(),
            part(kUnordered, {stored(101, 0, 6), stored(102, 1, 2), stored(103, 2, 5)}));
  EXPECT_EQ(world.reply_with(n(3) + ok()), ActionKind::relay);
  EXPECT_EQ(collection->calls, "reserve 1=101 2=102 3=103; reserve 4=101 5=103; reserve 6=101; ");
  EXPECT_EQ(lending->calls, "taken 1 3 of 2; taken 4 of 3; well; ");
}

TEST_F(Reserve, RefusesAClientsValueThatIsTaken) {
  const std::string own = doc(int_field("_id", 7) + int_field("number", 9));
  for (const bool ordered : {true, false}) {
    SetUp();
    lending->next = 1;
    *collection = FakeReservations();
    collection->all = {{"9", "x"}};
    const std::string options = ordered ? "" : kUnordered;
    ExchangeWorld world(rules());
    world.request(client(Form::sequence, options, {nth(0), own, nth(2)}));
    EXPECT_EQ(reserve(world), ActionKind::send);
    EXPECT_EQ(world.bytes(), part(options, {stored(101, 0, 1), kRefused, stored(102, 2, 2)}));
    const std::int32_t there = ordered ? 1 : 2;
    EXPECT_EQ(world.reply_with(n(there) + write_errors({refused_error(1)}) + ok()),
              ActionKind::reply);
    EXPECT_EQ(world.body(),
              doc(n(there) + write_errors({taken_error(1, int_field("number", 9), "9")}) + ok()));
    EXPECT_EQ(collection->calls,
              std::string("reserve 1=101 9=7 2=102; ") + (ordered ? "release 2; " : ""));
  }
}

TEST_F(Reserve, RefusesAClientsValueThatCannotBeReserved) {
  collection->refused = "bad";
  ExchangeWorld world(rules());
  world.request(
      client(Form::sequence, "", {doc(int_field("_id", 7) + string_field("number", "bad"))}));
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.bytes(), part("", {kRefused}));
  world.reply_with(n(0) + write_errors({refused_error(0)}) + ok());
  EXPECT_NE(world.body().find("the value of 'number' cannot be reserved: The '_id' value cannot"),
            std::string::npos);
}

TEST_F(Reserve, GivesUpAfterTheRulesAttempts) {
  numbers.retry.attempts = 1;
  collection->all = {{"1", "x"}, {"3", "y"}};
  ExchangeWorld world(rules());
  world.request(client(Form::sequence, kUnordered, {nth(0), nth(1)}));
  EXPECT_EQ(reserve(world), ActionKind::ask_store);
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.bytes(), part(kUnordered, {kRefused, stored(102, 1, 2)}));
  world.reply_with(n(1) + write_errors({refused_error(0)}) + ok());
  EXPECT_EQ(world.body(),
            doc(n(1) + write_errors({taken_error(0, long_field("number", 3), "3")}) + ok()));
  EXPECT_EQ(world.counts(), "assigned=2 resent=1 given_up=1");
  EXPECT_EQ(collection->calls, "reserve 1=101 2=102; reserve 3=101; ");
}

TEST_F(Reserve, ReleasesWhatFailedForCertain) {
  const struct {
    std::string options;
    std::string reply;
    std::string released;
  } rows[] = {
      {"", n(1) + write_errors({write_error(1, 121)}) + ok(), "release 2; release 3; "},
      {kUnordered, n(2) + write_errors({write_error(1, 121)}) + ok(), "release 2; "},
      {kUnordered, n(2) + write_errors({duplicate(1, {"mail"})}) + ok(), "release 2; "},
      // Nobody knows whether the document is stored.
      {kUnordered, n(2) + write_errors({write_error(1, 50)}) + ok(), ""},
      {"", n(3) + ok(), ""},
      {"", n(3) + doc_field("writeConcernError", int_field("code", 64)) + ok(), ""},
      {"", failure(13, "not authorized"), "release 1; release 2; release 3; "},
      {"", failure(189, "stepped down"), ""},
  };
  for (const auto& row : rows) {
    SetUp();
    lending->next = 1;
    *collection = FakeReservations();
    ExchangeWorld world(rules());
    world.request(client(Form::sequence, row.options, {nth(0), nth(1), nth(2)}));
    reserve(world);
    collection->calls.clear();
    EXPECT_EQ(world.reply_with(row.reply), ActionKind::relay);
    world.exchange.reset();
    EXPECT_EQ(collection->calls, row.released) << row.options;
  }
}

TEST_F(Reserve, LeavesWhatMayBeStored) {
  ExchangeWorld world(rules());
  world.request(client(Form::sequence, "", {nth(0)}));
  reserve(world);
  world.exchange.reset();  // the server's connection has ended
  EXPECT_EQ(collection->calls, "reserve 1=101; ");
}

TEST_F(Reserve, ReleasesWhatWasNeverSent) {
  collection->all = {{"2", "x"}};
  lending->at_hand = 2;
  ExchangeWorld world(rules());
  world.request(client(Form::sequence, "", {nth(0), nth(1)}));
  EXPECT_EQ(reserve(world), ActionKind::ask_store);  // for another number
  world.exchange.reset();                            // the client's connection has ended
  EXPECT_EQ(collection->calls, "reserve 1=101 2=102; release 1; ");
}

TEST_F(Reserve, NeverDeletesAReservationThatWasThere) {
  // An earlier attempt of the client may have stored the document.
  collection->all = {{"9", "7"}};
  ExchangeWorld world(rules());
  const std::string own = doc(int_field("_id", 7) + int_field("number", 9));
  world.request(client(Form::sequence, kTxnNumber, {own, nth(1)}));
  EXPECT_EQ(reserve(world), ActionKind::send);
  world.reply_with(n(2) + numbers_field("retriedStmtIds", {0, 1}) + ok());
  world.exchange.reset();
  // The earlier attempt has stored the second document with a number of its own.
  EXPECT_EQ(collection->calls, "reserve 9=7 1=101; release 1; ");
  *collection = FakeReservations();
  collection->all = {{"9", "7"}};
  world.request(client(Form::sequence, "", {own}));
  reserve(world);
  world.reply_with(n(0) + write_errors({duplicate(0)}) + ok());
  world.exchange.reset();
  EXPECT_EQ(collection->calls, "reserve 9=7; ");
}

TEST_F(Reserve, ReservesTheFreshValueOfADuplicate) {
  ExchangeWorld world(rules());
  world.request(client(Form::sequence, "", {nth(0), nth(1)}));
  reserve(world);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({duplicate(0, {"number"})}) + ok()),
            ActionKind::ask_store);
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.bytes(), addressed(part("", {stored(101, 0, 3), stored(102, 1, 2)}),
                                     world.exchange->request_id(), 0));
  EXPECT_EQ(world.reply_with(n(2) + ok()), ActionKind::reply);
  EXPECT_EQ(collection->calls, "reserve 1=101 2=102; release 1; reserve 3=101; ");
}

TEST_F(Reserve, FollowsAnIdThatIsRenewed) {
  Rule id = rule("shop.orders", "_id");
  ExchangeWorld world(rules({id}));
  world.request(client(Form::sequence, "", {nth(0)}));
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.bytes(), part("", {stored(1, 0, 1)}));
  EXPECT_EQ(world.reply_with(n(0) + write_errors({duplicate(0)}) + ok()), ActionKind::ask_store);
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(collection->calls, "reserve 1=1; release 1; reserve 1=2; ");
}

TEST_F(Reserve, FailsTheWriteIfTheStoreDoes) {
  const std::string text =
      "mongo-idproxy: no value for field 'number' of shop.orders (strategy lending): down";
  ExchangeWorld world(rules());
  world.request(client(Form::sequence, kTxnNumber, {nth(0)}));
  ask(world);
  EXPECT_EQ(world.answer(ids::Error{Errc::unavailable, "down"}), ActionKind::reply);
  EXPECT_EQ(world.body(),
            doc(ok(0) + string_field("errmsg", text) + int_field("code", 6) +
                string_field("codeName", "HostUnreachable") +
                texts_field("errorLabels", {"RetryableWriteError", "NoWritesPerformed"})));
  EXPECT_EQ(lending->calls, "back 1; ");
  world.exchange.reset();
  EXPECT_EQ(collection->calls, "");
}

TEST_F(Reserve, SendsAnUnacknowledgedInsert) {
  ExchangeWorld world(rules());
  collection->all = {{"1", "x"}};
  world.request(insert_sequence({nth(0), nth(1)}, wire::flag::kMoreToCome));
  EXPECT_EQ(reserve(world), ActionKind::ask_store);
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_FALSE(world.exchange->awaits_reply());
  EXPECT_EQ(world.bytes(),
            insert_sequence({stored(101, 0, 3), stored(102, 1, 2)}, wire::flag::kMoreToCome));
  world.exchange.reset();
  EXPECT_EQ(collection->calls, "reserve 1=101 2=102; reserve 3=101; ");
  world.request(insert_sequence({nth(0)}, wire::flag::kMoreToCome));
  ask(world);
  EXPECT_EQ(world.answer(ids::Error{Errc::unavailable, "down"}), ActionKind::reply);
  EXPECT_EQ(world.bytes(), "");
}

/// As drivers send it: ordered, and with the write concern in it.
TEST_F(Reserve, OfAnOrderedInsertThatIsNotAcknowledged) {
  const std::string w0 = doc_field("writeConcern", int_field("w", 0));
  for (const std::uint32_t flags : {wire::flag::kMoreToCome, 0U}) {
    for (const Form form : kForms) {
      SetUp();
      lending->next = 1;
      *collection = FakeReservations();
      collection->all = {{"1", "x"}};
      ExchangeWorld world(rules());
      world.request(client(form, w0, {nth(0), nth(1)}, flags));
      EXPECT_EQ(reserve(world), ActionKind::ask_store);
      EXPECT_EQ(reserve(world), ActionKind::send);
      EXPECT_EQ(world.exchange->awaits_reply(), flags == 0);
      EXPECT_EQ(world.bytes(), part(w0, {stored(101, 0, 3), stored(102, 1, 2)}, {}, flags));
      if (flags == 0) EXPECT_EQ(world.reply_with(n(0) + ok()), ActionKind::relay);
      world.exchange.reset();
      EXPECT_EQ(collection->calls, "reserve 1=101 2=102; reserve 3=101; ");
    }
  }
}

TEST_F(Reserve, WorksBesideASequenceWithoutGaps) {
  auto turns = std::make_shared<Turns>();
  Rule gapless = rule("shop.*", "g");
  gapless.strategy = std::make_shared<TurnRule>(turns);
  ExchangeWorld world(rules({gapless}));
  world.request(client(Form::sequence, "", {nth(0)}));
  EXPECT_EQ(turns->calls, "");
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
  EXPECT_EQ(turns->calls, "sent; 1 stored; ");
}

TEST_F(Reserve, StaysOutsideOfTransactions) {
  ExchangeWorld world(rules());
  world.request(client(Form::sequence, kTransaction, {nth(0)}));
  EXPECT_EQ(reserve(world), ActionKind::send);
  EXPECT_EQ(world.bytes(), part(kTransaction, {stored(101, 0, 1)}));
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
  world.exchange.reset();
  EXPECT_EQ(collection->calls, "reserve 1=101; ");
}

TEST_F(Reserve, RefusesWhatCannotBeSentInSeveralCommands) {
  ExchangeWorld world(rules());
  const std::string twice = bool_field("ordered", true) + bool_field("ordered", true);
  EXPECT_EQ(world.request(client(Form::sequence, twice, {nth(0)})), ActionKind::reply);
  EXPECT_NE(world.body().find("reserved (reserve), and this write cannot be sent in several"),
            std::string::npos);
  EXPECT_EQ(collection->calls, "");
}

TEST_F(Reserve, ForwardsUpserts) {
  ExchangeWorld world(rules());
  EXPECT_EQ(world.request(update_sequence("", {upsert(1)})), ActionKind::relay);
  ASSERT_EQ(world.exchange->facts().forwarded.size(), 1U);
  EXPECT_EQ(world.exchange->facts().forwarded[0].reason, ForwardReason::reserved);
}

TEST_F(Reserve, TouchesNothingWhereTheReservationsAre) {
  const auto set = rules();
  EXPECT_TRUE(set->plan("shop", "numbers").empty());
  const Plan plan = set->plan("shop", "orders");
  ASSERT_EQ(plan.size(), 2U);
  EXPECT_FALSE(plan[0].implied);
  EXPECT_TRUE(plan[1].implied && plan[1].is_id());
}

TEST_F(Reserve, HandsOutNoValuesWithoutADocument) {
  ExchangeWorld world(rules());
  world.memory.rights.add("shop.orders", Right::insert, world.clock.monotonic());
  EXPECT_EQ(world.request(next_value_of("number")), ActionKind::reply);
  EXPECT_NE(world.body().find("the rule reserves each value for one"), std::string::npos);
  EXPECT_EQ(world.counts(), "");
}

}  // namespace exchange_reserve_test
}  // namespace idproxy::rewrite
