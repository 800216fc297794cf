// What an exchange does about values that the id store keeps: asking for them, giving unused ones
// back, telling of those that are taken.

#include "idproxy/rewrite/exchange.hpp"
#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"
#include "support/lending_source.hpp"

namespace idproxy::rewrite {
namespace exchange_store_test {

using namespace test;
using namespace std::chrono_literals;
using ids::Errc;

constexpr Form kForms[] = {Form::sequence, Form::array};

Rule lent(std::string ns, std::string field, std::shared_ptr<Lending> lending) {
  Rule result = rule(std::move(ns), std::move(field));
  result.strategy_name = "lending";
  result.strategy = shared_source<LendingSource>(std::move(lending));
  return result;
}

/// One rule for `_id` with `at_hand` numbers from 1 on; the calls of it so far.
class Store : public ::testing::Test {
 protected:
  ExchangeScript::Rules only_id(std::size_t at_hand) {
    return [this, at_hand] {
      last = std::make_shared<Lending>();
      last->at_hand = at_hand;
      return rule_set_of(lent("shop.*", "_id", last));
    };
  }
  std::shared_ptr<Lending> last;
};

std::string no_value(std::string_view reason = "the reason") {
  return "mongo-idproxy: no value for field '_id' of shop.orders (strategy lending): " +
         std::string(reason);
}
std::string error_fields(std::int32_t code, std::string_view name,
                         const std::vector<std::string>& labels = {}) {
  return ok(0) + string_field("errmsg", no_value()) + int_field("code", code) +
         string_field("codeName", name) +
         (labels.empty() ? "" : texts_field("errorLabels", labels));
}

std::string also_counted(const std::string& reply) {
  if (reply.find(int_field("code", 11000)) != std::string::npos) return " foreign=1";
  return reply.find(int_field("code", 13)) != std::string::npos ? " not_permitted=1" : "";
}

// ---- asking ----------------------------------------------------------------------------------

TEST_F(Store, SendsWhatItHadToAskFor) {
  for (const Form form : kForms) {
    ExchangeScript(only_id(1))
        .request(client(form, kTxnNumber, {nth(0), nth(1)}))
        .asks(2)
        .granted(41)
        .sends_first(client(form, kTxnNumber, {nth(0, 41), nth(1, 42)}))
        .reply(n(2) + ok())
        .relays()
        .counts("assigned=2")
        .play();
    EXPECT_EQ(last->calls, "");
  }
}

/// Whatever comes out of turn, the write goes on from where it is, or ends.
TEST_F(Store, GoesOnOnlyAfterTheEventThatItWaitsFor) {
  ExchangeWorld world(only_id(0)());
  const auto number = [] { return ids::Grant(nullptr, {{5, 1}}); };
  ASSERT_EQ(world.request(insert_sequence({nth(0)})), ActionKind::ask_store);
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::close);
  EXPECT_EQ(world.resume(), ActionKind::close);
  ASSERT_EQ(world.answer(number()), ActionKind::send);
  EXPECT_EQ(world.answer(number()), ActionKind::close);
  EXPECT_EQ(world.resume(), ActionKind::close);
  ASSERT_EQ(world.reply_with(n(1) + ok()), ActionKind::relay);
  EXPECT_EQ(world.reply_with(n(1) + ok()), ActionKind::close);
  EXPECT_EQ(world.answer(number()), ActionKind::close);
  EXPECT_EQ(world.resume(), ActionKind::close);
  EXPECT_EQ(world.counts(), "assigned=1");
}

TEST_F(Store, DropsAnUnacknowledgedInsertWithoutValues) {
  ExchangeWorld world(only_id(0)());
  EXPECT_EQ(world.request(insert_sequence({nth(0)}, wire::flag::kMoreToCome)),
            ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Error{Errc::unavailable, "down"}), ActionKind::reply);
  EXPECT_EQ(world.bytes(), "");
  EXPECT_EQ(world.request(insert_sequence({nth(0)}, wire::flag::kMoreToCome)),
            ActionKind::ask_store);
  EXPECT_EQ(world.answer(ids::Grant(nullptr, {{5, 1}})), ActionKind::send);
  EXPECT_FALSE(world.exchange->awaits_reply());
}

const std::vector<std::string> kNoWrites = {"NoWritesPerformed"};
const std::vector<std::string> kRepeatable = {"RetryableWriteError", "NoWritesPerformed"};

/// Drivers that see a label try again in the way that fits, or raise their first attempt's error.
TEST_F(Store, SaysWhyThereAreNoValues) {
  const struct {
    const char* name;
    std::string options;
    std::vector<std::string> labels;
    std::vector<std::string> always = {};  // also where it is of no use to try again
  } rows[] = {{"plain", "", {}},
              {"retryable write", kTxnNumber, kRepeatable, kNoWrites},
              {"transaction", kTransaction, {"TransientTransactionError"}},
              {"not understood", kTxnNumber + kTxnNumber, kNoWrites, kNoWrites}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const Form form : kForms) {
      ExchangeScript(only_id(0))
          .request(client(form, row.options, {nth(0)}))
          .asks(1)
          .refused(Errc::unavailable)
          .replies(error_fields(6, "HostUnreachable", row.labels))
          .counts("")
          .play();
      ExchangeScript(only_id(0))
          .request(client(form, row.options, {nth(0)}))
          .asks(1)
          .refused(Errc::exhausted)
          .replies(error_fields(96, "OperationFailed", row.always))
          .counts("")
          .play();
    }
  }
}

TEST_F(Store, AnswersWithoutAskingWhereNothingCanBeHad) {
  for (const auto& [code, fields] :
       {std::pair(Errc::unavailable, error_fields(6, "HostUnreachable", kRepeatable)),
        std::pair(Errc::exhausted, error_fields(96, "OperationFailed", kNoWrites))}) {
    const auto rules = [reason = code] {
      auto lending = std::make_shared<Lending>();
      lending->errors = {{reason, "the reason"}};
      return rule_set_of(lent("shop.*", "_id", lending));
    };
    for (const Form form : kForms) {
      ExchangeScript(rules)
          .request(client(form, kTxnNumber, {nth(0)}))
          .replies(fields)
          .counts("")
          .play();
    }
  }
}

/// Rule by rule; what one had given goes back if another has nothing.
TEST_F(Store, AsksForEachRuleInTurn) {
  std::shared_ptr<Lending> a;
  std::shared_ptr<Lending> b;
  const auto rules = [&] {
    a = std::make_shared<Lending>();
    b = std::make_shared<Lending>();
    return rule_set_of(lent("shop.*", "a", a), rule("shop.*", "n"), lent("shop.*", "b", b));
  };
  const auto with = [](std::int32_t x, std::int64_t first, std::int64_t number,
                       std::int64_t second) {
    return doc(int_field("x", x) + long_field("a", first) + long_field("n", number) +
               long_field("b", second));
  };
  const auto plain = [](std::int32_t x) { return doc(int_field("x", x)); };
  for (const Form form : kForms) {
    ExchangeScript(rules)
        .request(client(form, "", {plain(0), plain(1)}))
        .asks(2)
        .granted(10)
        .asks(2)
        .granted(20)
        .sends_first(client(form, "", {with(0, 10, 1, 20), with(1, 11, 2, 21)}))
        .reply(n(2) + ok())
        .relays()
        .counts("assigned=6")
        .play();
    ExchangeScript(rules)
        .request(client(form, "", {plain(0), plain(1)}))
        .asks(2)
        .granted(10)
        .asks(2)
        .refused(Errc::exhausted)
        .replies(ok(0) +
                 string_field("errmsg",
                              "mongo-idproxy: no value for field 'b' of shop.orders (strategy "
                              "lending): the reason") +
                 int_field("code", 96) + string_field("codeName", "OperationFailed"))
        .counts("")
        .play();
    EXPECT_EQ(a->calls, "back 10 11; ");
    EXPECT_EQ(b->calls, "");
  }
}

TEST_F(Store, WaitsNoLongerForManyRulesThanForOne) {
  const auto rules = rule_set_of(lent("shop.*", "a", std::make_shared<Lending>()),
                                 lent("shop.*", "b", std::make_shared<Lending>()));
  ExchangeWorld world(rules);
  ASSERT_EQ(world.request(client(Form::array, "", {nth(0)})), ActionKind::ask_store);
  EXPECT_EQ(world.last<action::AskStore>().patience, 2s);
  world.clock.advance(1500ms);
  ASSERT_EQ(world.answer(ids::Grant(nullptr, {{1, 1}})), ActionKind::ask_store);
  EXPECT_EQ(world.last<action::AskStore>().patience, 500ms);
}

TEST_F(Store, GivesBackWhatAClientThatHasGoneHadDrawn) {
  const auto a = std::make_shared<Lending>();
  a->at_hand = 1;
  ExchangeWorld world(
      rule_set_of(lent("shop.*", "a", a), lent("shop.*", "b", std::make_shared<Lending>())));
  ASSERT_EQ(world.request(client(Form::array, "", {nth(0)})), ActionKind::ask_store);
  world.exchange.reset();
  EXPECT_EQ(a->calls, "back 1; ");
}

// ---- duplicates ------------------------------------------------------------------------------

TEST_F(Store, AsksForFreshValues) {
  const std::string options = kUnordered + kTxnNumber;
  for (const Form form : kForms) {
    ExchangeScript(only_id(3))
        .request(client(form, options, {nth(0), nth(1), nth(2)}))
        .sends(client(form, options, {nth(0, 1), nth(1, 2), nth(2, 3)}))
        .reply(n(1) + write_errors({duplicate(0), duplicate(2)}) + ok())
        .asks(2)
        .granted(50)
        .sends(part(options, {nth(0, 50), nth(2, 51)}, {0, 2}))
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .asks(1)
        .granted(60)
        .sends(part(options, {nth(2, 60)}, {2}))
        .reply(n(1) + ok())
        .replies(n(3) + ok())
        .counts("assigned=3 resent=3 cured=2")
        .play_once();
    EXPECT_EQ(last->calls, "taken 1 3 of 2; taken 51 of 3; well; ");
  }
}

TEST_F(Store, AsksForFreshValuesOfAnOrderedTail) {
  ExchangeScript(only_id(3))
      .request(client(Form::array, "", {nth(0), nth(1), nth(2)}))
      .sends(client(Form::array, "", {nth(0, 1), nth(1, 2), nth(2, 3)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .asks(1)
      .granted(50)
      .sends(part("", {nth(1, 50), nth(2, 3)}, {}))
      .reply(n(2) + ok())
      .replies(n(3) + ok())
      .counts("assigned=3 resent=1 cured=1")
      .play();
  EXPECT_EQ(last->calls.substr(0, 12), "taken 2 of 1");
}

/// mongod's 11000 stays where no fresh value can be had; what is stored is, once.
TEST_F(Store, LeavesTheDuplicateWhereNoFreshValueIsToBeHad) {
  for (const Errc code : {Errc::unavailable, Errc::exhausted}) {
    ExchangeScript(only_id(3))
        .request(client(Form::array, kUnordered, {nth(0), nth(1), nth(2)}))
        .sends(client(Form::array, kUnordered, {nth(0, 1), nth(1, 2), nth(2, 3)}))
        .reply(n(2) + write_errors({duplicate(1)}) + ok())
        .asks(1)
        .refused(code)
        .replies(n(2) + write_errors({duplicate(1)}) + ok())
        .counts("assigned=3 given_up=1", "_id")
        .play_once();
    EXPECT_EQ(last->calls, "taken 2 of 1; ");
    // An error of the whole command is one document's.
    ExchangeScript(only_id(1))
        .request(client(Form::array, "", {nth(0)}))
        .sends(client(Form::array, "", {nth(0, 1)}))
        .reply(failure(11000, "E11000") + doc_field("keyPattern", int_field("_id", 1)))
        .asks(1)
        .refused(code)
        .replies(failure(11000, "E11000") + doc_field("keyPattern", int_field("_id", 1)))
        .counts("assigned=1 given_up=1", "_id")
        .play_once();
  }
}

TEST_F(Store, AsksForFewerWhereThereAreTooFew) {
  ExchangeScript(only_id(3))
      .request(client(Form::array, kUnordered, {nth(0), nth(1), nth(2)}))
      .sends(client(Form::array, kUnordered, {nth(0, 1), nth(1, 2), nth(2, 3)}))
      .reply(n(0) + write_errors({duplicate(0), duplicate(1), duplicate(2)}) + ok())
      .asks(3)
      .refused(Errc::exhausted)
      .asks(1)
      .granted(70)
      .asks(1)
      .refused(Errc::exhausted)
      .sends(part(kUnordered, {nth(0, 70)}, {}))
      .reply(n(1) + ok())
      .replies(n(1) + write_errors({duplicate(1), duplicate(2)}) + ok())
      .counts("assigned=3 resent=1 cured=1 given_up=2", "_id")
      .play_once();
}

TEST_F(Store, TellsOfATransactionThatItsValueHasAborted) {
  ExchangeScript(only_id(2))
      .request(client(Form::array, kTransaction, {nth(0), nth(1)}))
      .sends(client(Form::array, kTransaction, {nth(0, 1), nth(1, 2)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .replies(ok(0) +
               string_field("errmsg",
                            "mongo-idproxy: the value generated for field '_id' of shop.orders is "
                            "taken; run the transaction again") +
               int_field("code", 112) + string_field("codeName", "WriteConflict") +
               texts_field("errorLabels", {"TransientTransactionError"}))
      .counts("assigned=2 transient=1")
      .play_once();
  EXPECT_EQ(last->calls, "aborted by 2 of 1; back 1; ");
}

// ---- unused values ---------------------------------------------------------------------------

TEST_F(Store, GivesBackWhatIsStoredNowhere) {
  const std::string foreign = write_error(1, 11000, duplicate_fields({"mail"}));
  const struct {
    const char* name;
    std::string options, reply, calls;
  } rows[] = {
      {"unordered", kUnordered, n(2) + write_errors({foreign}) + ok(), "back 2; "},
      {"ordered: what is behind it too", "", n(1) + write_errors({foreign}) + ok(), "back 2 3; "},
      {"all of a transaction", kTransaction, n(1) + write_errors({foreign}) + ok(), "back 1 2 3; "},
      {"not valid", kUnordered, n(2) + write_errors({write_error(1, 121)}) + ok(), "back 2; "},
      {"a mongos has lost its shard", "", n(0) + write_errors({write_error(0, 6)}) + ok(), ""},
      {"one error among others does not deny it", kUnordered,
       n(1) + write_errors({write_error(0, 91), foreign}) + ok(), "back 2; "},
      {"a duplicate of who knows what", kUnordered,
       n(2) + write_errors({write_error(1, 11000)}) + ok(), ""},
      {"not after a replay", kUnordered + kTxnNumber,
       n(2) + write_errors({foreign}) + numbers_field("retriedStmtIds", {0, 2}) + ok(), ""},
      {"not authorized", "", failure(13, "not authorized"), "back 1 2 3; "},
      {"a view", "", failure(166, "is a view"), "back 1 2 3; "},
      {"who knows", "", failure(10107, "not primary"), ""},
      {"well", "", n(3) + ok(), ""},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const Form form : kForms) {
      ExchangeScript(only_id(3))
          .request(client(form, row.options, {nth(0), nth(1), nth(2)}))
          .sends(client(form, row.options, {nth(0, 1), nth(1, 2), nth(2, 3)}))
          .reply(row.reply)
          .relays()
          .counts("assigned=3" + also_counted(row.reply))
          .play_once();
      EXPECT_EQ(last->calls, row.calls);
    }
  }
}

/// Neither values that are taken, nor those that were given up.
TEST_F(Store, GivesBackWhatWasDrawnAfterADuplicate) {
  ExchangeScript(only_id(9))
      .request(client(Form::array, "", {nth(0), nth(1), nth(2)}))
      .sends(client(Form::array, "", {nth(0, 1), nth(1, 2), nth(2, 3)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part("", {nth(0, 4), nth(1, 2), nth(2, 3)}, {}))
      .reply(n(1) + write_errors({duplicate(1, {"mail"})}) + ok())
      .replies(n(1) + write_errors({duplicate(1, {"mail"})}) + ok())
      .counts("assigned=3 resent=1 cured=1 foreign=1")
      .play_once();
  EXPECT_EQ(last->calls, "taken 1 of 1; back 2 3; ");
  const auto never = [this] {
    last = std::make_shared<Lending>();
    last->at_hand = 9;
    return rule_set_of(with(Retry{.attempts = 0}, lent("shop.*", "_id", last)));
  };
  ExchangeScript(never)
      .request(client(Form::array, "", {nth(0), nth(1)}))
      .sends(client(Form::array, "", {nth(0, 1), nth(1, 2)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .relays()
      .counts("assigned=2 given_up=1", "_id")
      .play_once();
  EXPECT_EQ(last->calls, "taken 1 of 1; back 2; ");
}

TEST_F(Store, GivesBackWhatWasNeverSent) {
  const std::string empty = doc(string_field("big", ""));
  const std::size_t room = 48'000'000 - insert_sequence({empty, empty, empty}).size();
  const std::string large = doc(string_field("big", std::string(room / 3, 'b')));
  ExchangeWorld world(only_id(9)());
  EXPECT_EQ(world.request(insert_sequence({large, large, large}, wire::flag::kMoreToCome)),
            ActionKind::reply);
  EXPECT_EQ(last->calls, "back 1 2 3; ");
}

// ---- readiness -------------------------------------------------------------------------------

TEST(Readiness, DecidesWhatBecomesOfAnInsert) {
  using Kind = ids::Readiness::Kind;
  const auto store = std::make_shared<FakeStore>();
  std::vector<Rule> rules;
  rules.push_back(rule("shop.*", "_id"));
  ExchangeWorld world(std::make_shared<const RuleSet>(std::move(rules), "idproxy", store));
  for (const Form form : kForms) {
    const auto insert = client(form, kTxnNumber, {nth(0)});
    store->set({});
    EXPECT_EQ(world.request(insert), ActionKind::send);
    store->set({Kind::left_alone, {}});
    EXPECT_EQ(world.request(insert), ActionKind::relay);
    store->set({Kind::not_ready, {Errc::unavailable, "not looked at yet"}});
    EXPECT_EQ(world.request(insert), ActionKind::reply);
    EXPECT_NE(world.body().find("HostUnreachable"), std::string::npos);
    EXPECT_NE(world.body().find("RetryableWriteError"), std::string::npos);
    store->set({Kind::not_ready, {Errc::exhausted, "no unique index"}});
    EXPECT_EQ(world.request(insert), ActionKind::reply);
    EXPECT_NE(world.body().find("OperationFailed"), std::string::npos);
    EXPECT_EQ(world.body().find("RetryableWriteError"), std::string::npos);
    EXPECT_NE(world.body().find("NoWritesPerformed"), std::string::npos);
    // Documents that need no value pass.
    EXPECT_EQ(world.request(client(form, "", {nth(0, 5)})), ActionKind::relay);
  }
}

}  // namespace exchange_store_test
}  // namespace idproxy::rewrite
