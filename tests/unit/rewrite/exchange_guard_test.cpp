// What an exchange does about the unique index that a rule demands.

#include "idproxy/ids/guard.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"
#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace exchange_guard_test {

using namespace test;
using namespace std::chrono_literals;
using ids::CollectionUuid;
using State = ids::GuardState::Kind;

constexpr CollectionUuid kOne{1};
constexpr CollectionUuid kOther{2};

/// {collectionUUID: BinData(4, uuid)}
std::string uuid_field(const CollectionUuid& uuid) {
  std::string element(
      "\x05"
      "collectionUUID\0\x10\0\0\0\x04",
      21);
  return element.append(uuid.begin(), uuid.end());
}
std::string moved(std::int32_t index) {
  return write_error(index, 361);
}
std::string on(const CollectionUuid& uuid, const std::vector<std::string>& documents,
               const std::string& options = "", const std::vector<std::int32_t>& numbers = {}) {
  const std::string stmt_ids = numbers.empty() ? "" : numbers_field("stmtIds", numbers);
  return client(Form::sequence, options + uuid_field(uuid) + stmt_ids, documents);
}

class GuardedExchange : public ::testing::Test {
 protected:
  GuardedExchange() { store->guarding = guard; }
  void see(const CollectionUuid& uuid) {
    guard->set({State::guarded, {}, uuid}, world.clock.monotonic());
  }
  /// The store has looked for a write that waits.
  ActionKind look(const CollectionUuid& uuid) {
    see(uuid);
    return world.answer(ids::Grant());
  }
  void expect_sent(const std::string& bytes) const {
    EXPECT_EQ(world.bytes().substr(16), bytes.substr(16)) << "but for the header";
  }

  std::shared_ptr<ids::Guard> guard = std::make_shared<ids::Guard>(0, "shop", "orders", nullptr);
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  ExchangeWorld world{
      std::make_shared<const RuleSet>(std::vector<Rule>{rule("shop.*", "_id")}, "idproxy", store)};
};

TEST_F(GuardedExchange, WaitsForTheLookAndNamesTheCollection) {
  for (const Form form : {Form::sequence, Form::array}) {
    guard->set({}, {});
    EXPECT_EQ(world.request(client(form, kUnordered, {nth(0)})), ActionKind::ask_store);
    EXPECT_EQ(world.last<action::AskStore>().strategy, guard.get());
    EXPECT_EQ(world.last<action::AskStore>().patience, 2s);
    EXPECT_EQ(look(kOne), ActionKind::send);
    const std::int64_t id = form == Form::sequence ? 1 : 2;
    expect_sent(on(kOne, {nth(0, id)}, kUnordered));
    EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
  }
}

TEST_F(GuardedExchange, DocumentsWithValuesOfTheirOwnDoNotWait) {
  EXPECT_EQ(world.request(client(Form::sequence, "", {nth(0, 7)})), ActionKind::relay);
}

TEST_F(GuardedExchange, AServerThatTakesNoUuidGetsNone) {
  guard->set({State::guarded, {}, {}}, world.clock.monotonic());
  EXPECT_EQ(world.request(client(Form::array, "", {nth(0)})), ActionKind::send);
  expect_sent(client(Form::array, "", {nth(0, 1)}));
}

TEST_F(GuardedExchange, NorDoesTheStrictApiOrAClientWithItsOwn) {
  see(kOne);
  for (const std::string& option : {bool_field("apiStrict", true), uuid_field(kOther)}) {
    EXPECT_EQ(world.request(client(Form::sequence, option, {nth(0)})), ActionKind::send);
    EXPECT_EQ(world.bytes().find(uuid_field(kOne)), std::string::npos);
  }
}

/// Nobody would hear of the server's refusal.
TEST_F(GuardedExchange, NorDoesAnUnacknowledgedWrite) {
  see(kOne);
  const std::string w0 = doc_field("writeConcern", int_field("w", 0));
  EXPECT_EQ(world.request(client(Form::sequence, w0, {nth(0)})), ActionKind::send);
  expect_sent(client(Form::sequence, w0, {nth(0, 1)}));
  constexpr auto kNoReply = wire::flag::kMoreToCome;  // whatever its write concern
  EXPECT_EQ(world.request(insert_sequence({nth(0)}, kNoReply)), ActionKind::send);
  expect_sent(insert_sequence({nth(0, 2)}, kNoReply));
}

TEST_F(GuardedExchange, WhatTheServerRefusesGoesToTheCollectionThatIsThereNow) {
  see(kOne);
  EXPECT_EQ(
      world.request(client(Form::sequence, kUnordered + kTxnNumber, {nth(0), nth(1), nth(2)})),
      ActionKind::send);
  EXPECT_EQ(world.reply_with(n(1) + write_errors({moved(1), moved(2)}) + ok()),
            ActionKind::ask_store);
  EXPECT_EQ(guard->state(world.clock.monotonic()).kind, State::unknown);
  EXPECT_EQ(look(kOther), ActionKind::send);
  expect_sent(on(kOther, {nth(1, 2), nth(2, 3)}, kUnordered + kTxnNumber, {1, 2}));
  EXPECT_EQ(world.reply_with(n(2) + ok()), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(3) + ok()));
  EXPECT_EQ(world.counts(), "assigned=3") << "no value was taken";
}

TEST_F(GuardedExchange, AnOrderedInsertGoesOnFromTheFirstOne) {
  see(kOne);
  EXPECT_EQ(world.request(client(Form::sequence, "", {nth(0), nth(1), nth(2)})), ActionKind::send);
  EXPECT_EQ(world.reply_with(n(1) + write_errors({moved(1)}) + ok()), ActionKind::ask_store);
  EXPECT_EQ(look(kOther), ActionKind::send);
  expect_sent(on(kOther, {nth(1, 2), nth(2, 3)}));
  EXPECT_EQ(world.reply_with(n(2) + ok()), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(3) + ok()));
}

TEST_F(GuardedExchange, DuplicatesOfTheNewCollectionAreCuredAsEver) {
  see(kOne);
  EXPECT_EQ(world.request(client(Form::sequence, kUnordered, {nth(0), nth(1)})), ActionKind::send);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({duplicate(0), moved(1)}) + ok()),
            ActionKind::ask_store);
  EXPECT_EQ(look(kOther), ActionKind::send);
  expect_sent(on(kOther, {nth(0, 3), nth(1, 2)}, kUnordered));
  EXPECT_EQ(world.reply_with(n(2) + ok()), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(2) + ok()));
}

TEST_F(GuardedExchange, GivesUpAfterTwoSeconds) {
  see(kOne);
  EXPECT_EQ(world.request(client(Form::sequence, kTxnNumber, {nth(0)})), ActionKind::send);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world.reply_with(n(0) + write_errors({moved(0)}) + ok()), ActionKind::ask_store);
    EXPECT_LE(world.last<action::AskStore>().patience, 2s);
    world.clock.advance(700ms);
    EXPECT_EQ(look(i % 2 == 0 ? kOther : kOne), ActionKind::send);
  }
  EXPECT_EQ(world.reply_with(n(0) + write_errors({moved(0)}) + ok()), ActionKind::reply);
  EXPECT_NE(world.body().find("the collection is dropped or replaced again and again"),
            std::string::npos);
  EXPECT_NE(world.body().find(int_field("code", 6)), std::string::npos);
  EXPECT_NE(world.body().find("RetryableWriteError"), std::string::npos);
}

TEST_F(GuardedExchange, EachWaitHasTwoSecondsOfItsOwn) {
  see(kOne);
  EXPECT_EQ(world.request(client(Form::sequence, "", {nth(0)})), ActionKind::send);
  for (const CollectionUuid& next : {kOther, kOne, kOther}) {
    EXPECT_EQ(world.reply_with(n(0) + write_errors({moved(0)}) + ok()), ActionKind::ask_store);
    EXPECT_EQ(world.last<action::AskStore>().patience, 2s);
    world.clock.advance(1s);
    EXPECT_EQ(look(next), ActionKind::send);
    world.clock.advance(4s);  // the server is slow
  }
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(1) + ok()));
}

TEST_F(GuardedExchange, AfterACommandThatWasCarriedOutADropIsTheFirst) {
  see(kOne);
  const std::string two = client(Form::sequence, "", {nth(0), nth(1), nth(2)});
  EXPECT_EQ(world.request(two), ActionKind::send);
  for (const std::int32_t stored : {0, 1, 1}) {
    EXPECT_EQ(world.reply_with(n(stored) + write_errors({moved(stored)}) + ok()),
              ActionKind::ask_store);
    world.clock.advance(1s);
    EXPECT_EQ(look(kOne), ActionKind::send);
    world.clock.advance(1500ms);
  }
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(3) + ok()));
}

/// With a guard for each rule.
struct TwoGuards : FakeStore {
  std::shared_ptr<ids::Guard> guard(std::size_t rule, std::string_view /*db*/,
                                    std::string_view /*collection*/) override {
    return all[rule];
  }
  std::vector<std::shared_ptr<ids::Guard>> all;
};

/// One of them has seen the collection that was replaced while the write waited for the other.
TEST(GuardedExchanges, WhatWasReplacedWhileAnotherWaitedIsAskedForAgain) {
  const auto store = std::make_shared<TwoGuards>();
  for (std::size_t i = 0; i < 2; ++i) {
    store->all.push_back(std::make_shared<ids::Guard>(i, "shop", "orders", nullptr));
  }
  ExchangeWorld world(std::make_shared<const RuleSet>(
      std::vector<Rule>{rule("shop.*", "_id"), rule("shop.*", "number")}, "idproxy", store));
  const auto see = [&](std::size_t guard, const CollectionUuid& uuid) {
    store->all[guard]->set({State::guarded, {}, uuid}, world.clock.monotonic());
  };
  see(0, kOne);
  EXPECT_EQ(world.request(client(Form::sequence, "", {nth(0)})), ActionKind::ask_store);
  EXPECT_EQ(world.last<action::AskStore>().strategy, store->all[1].get());
  world.clock.advance(500ms);
  see(1, kOther);
  EXPECT_EQ(world.answer(ids::Grant()), ActionKind::ask_store) << "they have seen two collections";
  EXPECT_EQ(world.last<action::AskStore>().patience, 1500ms);
  for (const auto& each : store->all) {
    EXPECT_EQ(each->state(world.clock.monotonic()).kind, State::unknown);
  }
  see(1, kOther);
  EXPECT_EQ(world.answer(ids::Grant()), ActionKind::ask_store);
  EXPECT_EQ(world.last<action::AskStore>().strategy, store->all[0].get());
  see(0, kOther);
  EXPECT_EQ(world.answer(ids::Grant()), ActionKind::send);
  EXPECT_NE(world.bytes().find(uuid_field(kOther)), std::string::npos);
  EXPECT_EQ(world.bytes().find(uuid_field(kOne)), std::string::npos);
}

TEST_F(GuardedExchange, TheServersWordForAMovedCollectionReplacesNoDuplicate) {
  see(kOne);
  EXPECT_EQ(world.request(client(Form::sequence, "", {nth(0)})), ActionKind::send);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({duplicate(0)}) + ok()), ActionKind::send);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({moved(0)}) + ok()), ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Error{ids::Errc::exhausted, "no unique index"}), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(0) + write_errors({duplicate(0)}) + ok()));
}

TEST_F(GuardedExchange, ATransactionRunsAgain) {
  see(kOne);
  EXPECT_EQ(world.request(client(Form::sequence, kTransaction, {nth(0)})), ActionKind::send);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({moved(0)}) + ok()), ActionKind::reply);
  EXPECT_NE(world.body().find(int_field("code", 112)), std::string::npos);
  EXPECT_NE(world.body().find("TransientTransactionError"), std::string::npos);
  EXPECT_EQ(guard->state(world.clock.monotonic()).kind, State::unknown);
}

TEST_F(GuardedExchange, ATransactionThatMayNotRunAgainGetsAnErrorThatDriversKnow) {
  Rule surfaced = rule("shop.*", "_id");
  surfaced.in_transaction = InTransaction::surface;
  ExchangeWorld other{
      std::make_shared<const RuleSet>(std::vector<Rule>{surfaced}, "idproxy", store)};
  see(kOne);
  EXPECT_EQ(other.request(client(Form::sequence, kTransaction, {nth(0)})), ActionKind::send);
  EXPECT_EQ(other.reply_with(n(0) + write_errors({moved(0)}) + ok()), ActionKind::reply);
  EXPECT_NE(other.body().find(int_field("code", 96)), std::string::npos);
  EXPECT_EQ(other.body().find("TransientTransactionError"), std::string::npos);
}

TEST_F(GuardedExchange, AServerOfAnEarlierVersionGetsTheWriteAgainWithoutTheUuid) {
  see(kOne);
  EXPECT_EQ(world.request(client(Form::sequence, "", {nth(0)})), ActionKind::send);
  EXPECT_EQ(world.reply_with(failure(40415,
                                     "BSON field 'insert.collectionUUID' is an unknown "
                                     "field.")),
            ActionKind::send);
  expect_sent(client(Form::sequence, "", {nth(0, 1)}));
  EXPECT_TRUE(guard->state(world.clock.monotonic()).uuid) << "others go on naming it";
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::reply);
  EXPECT_EQ(world.body(), doc(n(1) + ok()));
  EXPECT_FALSE(guard->state(world.clock.monotonic()).uuid);
}

TEST_F(GuardedExchange, AFieldOfTheClientsWithANameLikeThatIsRefusedToItAlone) {
  see(kOne);
  const std::string refusal = "BSON field 'insert.collectionUUIDx' is an unknown field.";
  EXPECT_EQ(world.request(client(Form::sequence, int_field("collectionUUIDx", 1), {nth(0)})),
            ActionKind::send);
  EXPECT_EQ(world.reply_with(failure(40415, refusal)), ActionKind::send);
  EXPECT_EQ(world.reply_with(failure(40415, refusal)), ActionKind::reply);
  EXPECT_NE(world.body().find(refusal), std::string::npos);
  EXPECT_TRUE(guard->state(world.clock.monotonic()).uuid);
}

TEST_F(GuardedExchange, RefusesWithoutAnIndex) {
  guard->set({State::unguarded, {ids::Errc::exhausted, "no unique index"}, {}}, {});
  EXPECT_EQ(world.request(client(Form::sequence, kTxnNumber, {nth(0)})), ActionKind::reply);
  EXPECT_NE(world.body().find(int_field("code", 96)), std::string::npos);
  EXPECT_NE(world.body().find("no unique index"), std::string::npos);
}

TEST_F(GuardedExchange, AViewGetsTheClientsOwnBytes) {
  const std::string request = client(Form::array, "", {nth(0)});
  EXPECT_EQ(world.request(request), ActionKind::ask_store);
  guard->set({State::left_alone, {}, {}}, world.clock.monotonic());
  EXPECT_EQ(world.answer(ids::Grant()), ActionKind::send);
  EXPECT_EQ(world.bytes(), request);
  EXPECT_EQ(world.reply_with(n(0) + write_errors({write_error(0, 166)}) + ok()), ActionKind::relay);
  EXPECT_EQ(world.counts(), "");
}

TEST_F(GuardedExchange, AnInsertIntoATimeSeriesCollectionIsCounted) {
  const auto send = [&](const std::string& request, ids::Readiness readiness) {
    guard->set({}, {});
    store->set({});
    EXPECT_EQ(world.request(request), ActionKind::ask_store);
    store->set(std::move(readiness));
    guard->set({State::left_alone, {}, {}}, world.clock.monotonic());
    EXPECT_EQ(world.answer(ids::Grant()), ActionKind::send);
    EXPECT_EQ(world.bytes(), request);
    return world.exchange->facts().forwarded;
  };
  const ids::Readiness time_series{ids::Readiness::Kind::left_alone, {}, true};
  const auto counted = send(client(Form::sequence, "", {nth(0), nth(1)}), time_series);
  ASSERT_EQ(counted.size(), 1U);
  EXPECT_EQ(counted.front().reason, ForwardReason::time_series);
  EXPECT_EQ(counted.front().assignment->ns, "shop.orders");
  EXPECT_EQ(world.counts(), "");
  EXPECT_EQ(world.namespaces.rules()
                ->outcomes(0)
                .forwarded[static_cast<std::size_t>(ForwardReason::time_series)],
            1U)
      << "one command";
  EXPECT_TRUE(
      send(client(Form::sequence, "", {nth(0)}), {ids::Readiness::Kind::left_alone, {}}).empty())
      << "a view";
}

TEST_F(GuardedExchange, KeysThatTheServerMustSeeAreNotHidden) {
  see(kOne);
  std::string documents = array_field("documents", {nth(0)});
  const auto key =
      documents.find(std::string("\x03"
                                 "0\0",
                                 3));
  ASSERT_NE(key, std::string::npos);
  documents[key + 1] = '7';
  const std::string request =
      op_msg(body(doc(string_field("insert", "orders") + documents + string_field("$db", "shop"))));
  EXPECT_EQ(world.request(request), ActionKind::reply);
  EXPECT_NE(world.body().find(int_field("code", 96)), std::string::npos);
}

// ---- {idproxy: "next"} -------------------------------------------------------------------------

TEST_F(GuardedExchange, HandsOutValuesWhileTheIndexIsThere) {
  world.memory.rights.add("shop.orders", Right::insert, world.clock.monotonic());
  EXPECT_EQ(world.request(next_value_of("_id")), ActionKind::ask_store);
  EXPECT_EQ(world.last<action::AskStore>().strategy, guard.get());
  EXPECT_EQ(look(kOne), ActionKind::reply);
  EXPECT_EQ(world.counts(), "handed_out=1");
  EXPECT_EQ(world.request(next_value_of("_id")), ActionKind::reply);
  EXPECT_EQ(world.counts(), "handed_out=2");
}

TEST_F(GuardedExchange, HandsOutNoValuesWithoutTheIndex) {
  const auto now = world.clock.monotonic();
  world.memory.rights.add("shop.orders", Right::insert, now);
  const auto answer_says = [&](std::string_view text) {
    return world.body().find(text) != std::string::npos;
  };
  EXPECT_EQ(world.request(next_value_of("_id")), ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Error{ids::Errc::unavailable, "the reason"}), ActionKind::reply);
  EXPECT_TRUE(answer_says("no value for field '_id'") && answer_says("the reason"));
  guard->set({State::unguarded, {ids::Errc::unguarded, "no unique index"}}, now);
  EXPECT_EQ(world.request(next_value_of("_id")), ActionKind::reply);
  EXPECT_TRUE(answer_says("no unique index"));
  guard->set({State::left_alone}, now);
  EXPECT_EQ(world.request(next_value_of("_id")), ActionKind::reply);
  EXPECT_TRUE(answer_says("no rule applies to shop.orders"));
  EXPECT_EQ(world.counts(), "");
}

}  // namespace exchange_guard_test
}  // namespace idproxy::rewrite
