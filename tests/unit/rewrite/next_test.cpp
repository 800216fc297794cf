// {idproxy: "next"} from its request to its answer, as an exchange handles it.

#include <gtest/gtest.h>

#include <algorithm>

#include "support/exchange_script.hpp"
#include "support/fake_store.hpp"
#include "support/lending_source.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace next_test {

using namespace test;
using namespace std::chrono_literals;
using ids::Errc;

constexpr std::uint32_t kChecksum = wire::flag::kChecksumPresent;
const std::string kAdmin = string_field("$db", "admin");
const std::string kTimes = doc_field("$clusterTime", timestamp_field("clusterTime", 5)) +
                           timestamp_field("operationTime", 4);

std::string ask_for(std::string_view field, const std::string& more = {}, std::uint32_t flags = 0,
                    std::string_view ns = "shop.orders") {
  return op_msg(body(doc(string_field("idproxy", "next") + string_field("ns", ns) +
                         string_field("field", field) + more + kAdmin)),
                flags);
}
std::string ask(std::int32_t count = 2, const std::string& more = {}, std::uint32_t flags = 0) {
  return ask_for("number", int_field("count", count) + more, flags);
}
/// The command that the server gets to check the right.
std::string question(const std::string& more = {}, std::uint32_t flags = 0,
                     std::string_view collection = "orders") {
  return op_msg(
      body(doc(string_field("insert", collection) +
               array_field("documents", {text_of(refused_document())}) +
               doc_field("writeConcern", int_field("w", 1)) + more + string_field("$db", "shop"))),
      flags);
}
std::string refusing(std::int32_t code, const std::string& text = "text") {
  return n(0) + write_errors({write_error(0, code, string_field("errmsg", text))}) + ok() + kTimes;
}
/// mongod's answer to those who may insert.
const std::string kMay = refusing(53, "The '_id' value cannot be of type array");

std::string values(const std::vector<std::int64_t>& values, std::uint32_t flags = 0) {
  std::string elements;
  for (std::size_t i = 0; i < values.size(); ++i) {
    elements += long_field(std::to_string(i), values[i]);
  }
  return reply_message(element(bson::Type::array, "ids", doc(elements)) + ok(), 7, flags);
}
std::string error(std::int32_t code, std::string_view name, const std::string& text,
                  const std::vector<std::string>& labels = {}) {
  return reply_message(ok(0) + string_field("errmsg", "mongo-idproxy: " + text) +
                       int_field("code", code) + string_field("codeName", name) +
                       (labels.empty() ? "" : texts_field("errorLabels", labels)));
}

class Next : public ::testing::Test {
 protected:
  /// One rule for `number` in all collections of shop that begin with o, and another field's.
  static std::shared_ptr<const RuleSet> counting() {
    return rule_set_of(rule("shop.o*", "number"), rule("shop.o*", "code"));
  }
  std::shared_ptr<const RuleSet> lending(std::size_t at_hand) {
    lent = std::make_shared<Lending>();
    lent->at_hand = at_hand;
    Rule rule = test::rule("shop.o*", "number");
    rule.strategy_name = "lending";
    rule.strategy = shared_source<LendingSource>(lent);
    return rule_set_of(std::move(rule));
  }
  /// The last reply, as the answer to the client's request. Its request id is the proxy's own.
  static std::string answer(const ExchangeWorld& world) { return addressed(world.bytes(), 0, 7); }
  static std::string expected(const std::string& reply) { return addressed(reply, 0, 7); }

  std::shared_ptr<Lending> lent;
};

// ---- asking the server -----------------------------------------------------------------------

TEST_F(Next, AsksTheServerAndHandsOutValues) {
  for (const std::uint32_t flags : {0U, kChecksum}) {
    for (const std::uint32_t server_flags : {0U, kChecksum}) {
      for (const bool owned : {false, true}) {
        ExchangeWorld world(counting());
        EXPECT_EQ(world.request(ask(3, "", flags), owned), ActionKind::send);
        EXPECT_EQ(world.bytes(), question("", flags));
        EXPECT_TRUE(world.exchange->is_next());
        EXPECT_TRUE(world.exchange->awaits_reply());
        EXPECT_EQ(world.exchange->facts().handed_out, 0U);
        EXPECT_EQ(world.reply_with(kMay, server_flags), ActionKind::reply);
        EXPECT_EQ(answer(world), expected(values({1, 2, 3}, flags)));
        EXPECT_EQ(world.exchange->facts().handed_out, 3U);
        EXPECT_EQ(world.exchange->facts().assigned, 0U);
        EXPECT_EQ(world.counts(), "handed_out=3");
        world.exchange->release(world.workspace);
      }
    }
  }
}

TEST_F(Next, KnowsTheAnswerOfAMongosThatShardsById) {
  ExchangeWorld world(counting());
  world.request(ask());
  world.reply_with(refusing(61, "Shard key cannot contain array values"));
  EXPECT_EQ(answer(world), expected(values({1, 2})));
}

TEST_F(Next, HandsOutOneValueByDefault) {
  ExchangeWorld world(counting());
  world.request(ask_for("code"));
  world.reply_with(kMay);
  EXPECT_EQ(answer(world), expected(values({1})));
}

/// The question is in no session and no transaction, but fails and ends as the request would.
TEST_F(Next, KeepsWhatTheQuestionNeeds) {
  const std::string kept = int_field("maxTimeMS", 5) + string_field("apiVersion", "1") +
                           bool_field("apiStrict", true) +
                           bool_field("apiDeprecationErrors", true) + string_field("comment", "c");
  ExchangeWorld world(counting());
  world.request(ask(1, doc_field("lsid", int_field("id", 1)) + kept + long_field("txnNumber", 4) +
                           doc_field("writeConcern", string_field("w", "majority")) +
                           doc_field("$readPreference", "") + doc_field("readConcern", "")));
  EXPECT_EQ(world.bytes(), question(kept));
}

TEST_F(Next, SaysNothingIfNobodyWaits) {
  ExchangeWorld world(counting());
  EXPECT_EQ(world.request(ask(2, "", wire::flag::kMoreToCome)), ActionKind::reply);
  EXPECT_EQ(world.bytes(), "");
  EXPECT_EQ(world.counts(), "");
}

TEST_F(Next, PassesAMissingRightOn) {
  ExchangeWorld world(counting());
  world.request(ask());
  const auto denied = [](const std::string& text) {
    return ok(0) + string_field("errmsg", text) + int_field("code", 13) +
           string_field("codeName", "Unauthorized") + kTimes;
  };
  EXPECT_EQ(world.reply_with(denied("not authorized on shop")), ActionKind::reply);
  EXPECT_EQ(
      answer(world),
      expected(reply_message(denied("mongo-idproxy: values are for those who may insert into the "
                                    "collection; the server says: not authorized on shop"))));
  EXPECT_EQ(world.counts(), "not_permitted=1");
  EXPECT_EQ(world.request(ask()), ActionKind::send) << "it asks again";
}

TEST_F(Next, PassesOtherErrorsOn) {
  for (const std::string& fields : {failure(10107, "not primary", {"RetryableWriteError"}) + kTimes,
                                    failure(91, "The server is in quiesce mode") + kTimes,
                                    failure(73, "Invalid namespace"), ok(0)}) {
    ExchangeWorld world(counting());
    world.request(ask());
    EXPECT_EQ(world.reply_with(fields), ActionKind::reply);
    EXPECT_EQ(answer(world), expected(reply_message(fields)));
    EXPECT_EQ(world.request(ask()), ActionKind::send);
  }
}

/// Beside ok: 1, no driver would see the error.
TEST_F(Next, TurnsAWriteErrorIntoTheCommands) {
  for (const std::int32_t code : {13, 166, 189, 11600}) {
    ExchangeWorld world(counting());
    world.request(ask());
    const std::string label = texts_field("errorLabels", {"RetryableWriteError"});
    EXPECT_EQ(world.reply_with(refusing(code, "why") + label), ActionKind::reply);
    EXPECT_EQ(answer(world), expected(reply_message(ok(0) + string_field("errmsg", "why") +
                                                    int_field("code", code) + label + kTimes)));
    EXPECT_EQ(world.counts(), code == 13 ? "not_permitted=1" : "");
    EXPECT_EQ(world.request(ask()), ActionKind::send);
  }
}

TEST_F(Next, ClosesIfTheServersAnswerIsNone) {
  for (const std::string& fields :
       {std::string(), n(1) + ok(), ok(), ok(2), n(0) + ok() + ok(), kMay + ok(),
        n(0) + write_errors({write_error(1, 53)}) + ok(), n(0) + int_field("writeErrors", 1) + ok(),
        n(0) + write_errors({doc(int_field("index", 0))}) + ok(), kMay + "\x42"}) {
    ExchangeWorld world(counting());
    world.request(ask());
    EXPECT_EQ(world.reply_with(fields), ActionKind::close);
    EXPECT_EQ(world.counts(), "");
  }
  const std::string more_to_come = reply_message(kMay, 7, wire::flag::kMoreToCome);
  for (const std::string& bytes :
       {more_to_come, op_reply(doc(kMay), 7), op_msg(body(doc(kMay)) + sequence("x", {}), 0, 7)}) {
    ExchangeWorld world(counting());
    world.request(ask());
    EXPECT_EQ(world.reply(bytes), ActionKind::close);
  }
}

TEST_F(Next, NeedsAWholeAnswer) {
  for (std::size_t cut = 0; cut < kMay.size() - kTimes.size(); ++cut) {
    ExchangeWorld world(counting());
    world.request(ask());
    EXPECT_EQ(world.reply_with(kMay.substr(0, cut)), ActionKind::close) << cut;
  }
}

// ---- the right is remembered -----------------------------------------------------------------

TEST_F(Next, AsksOnceAMinute) {
  ExchangeWorld world(counting());
  EXPECT_EQ(world.request(ask()), ActionKind::send);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::reply);
  for (const bool owned : {false, true}) {
    EXPECT_EQ(world.request(ask(1), owned), ActionKind::reply);
    EXPECT_FALSE(world.exchange->awaits_reply());
    EXPECT_EQ(answer(world), expected(values({owned ? 4 : 3})));
  }
  EXPECT_EQ(world.request(ask_for("code")), ActionKind::reply) << "another field";
  EXPECT_EQ(world.request(ask_for("number", "", 0, "shop.other")), ActionKind::send);
  world.clock.advance(60s);
  EXPECT_EQ(world.request(ask()), ActionKind::send);
}

TEST_F(Next, AsksAgainAfterAHello) {
  ExchangeWorld world(counting());
  world.request(ask());
  world.reply_with(kMay);
  world.request(op_msg(body(doc(int_field("hello", 1) + kAdmin))));
  EXPECT_EQ(world.request(ask()), ActionKind::send);
}

TEST_F(Next, AsksEachTimeIfNothingIsRemembered) {
  ExchangeWorld world(counting());
  for (int i = 0; i < 2; ++i) {
    world.exchange = std::make_unique<Exchange>();
    const std::string bytes = ask(1);
    EXPECT_EQ(kind_of(begin(*world.exchange, as_bytes(bytes), nullptr, world.namespaces,
                            world.context, world.workspace)),
              ActionKind::send);
    EXPECT_EQ(world.reply_with(kMay), ActionKind::reply);
    EXPECT_EQ(answer(world), expected(values({i + 1})));
  }
}

// ---- the values ------------------------------------------------------------------------------

TEST_F(Next, AsksTheStoreBeforeOrAfterTheServer) {
  ExchangeWorld world(lending(0));
  EXPECT_EQ(world.request(ask()), ActionKind::send);
  EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_store);
  EXPECT_TRUE(world.exchange->awaits_reply());
  EXPECT_EQ(world.last<action::AskStore>().count, 2U);
  EXPECT_EQ(world.last<action::AskStore>().patience, 2s);
  EXPECT_EQ(world.answer(ids::Grant(nullptr, {{41, 2}})), ActionKind::reply);
  EXPECT_EQ(answer(world), expected(values({41, 42})));

  for (const bool owned : {false, true}) {
    EXPECT_EQ(world.request(ask(3), owned), ActionKind::ask_store);
    EXPECT_FALSE(world.exchange->awaits_reply());
    EXPECT_EQ(world.answer(ids::Grant(nullptr, {{50, 1}, {60, 2}})), ActionKind::reply);
    EXPECT_EQ(answer(world), expected(values({50, 60, 61})));
  }
  EXPECT_EQ(world.counts(), "handed_out=8");
}

TEST_F(Next, NeverTakesValuesBack) {
  ExchangeWorld world(lending(9));
  world.request(ask(4));
  world.reply_with(kMay);
  EXPECT_EQ(answer(world), expected(values({1, 2, 3, 4})));
  world.exchange->release(world.workspace);
  world.exchange.reset();
  EXPECT_EQ(lent->calls, "");

  // A client that leaves while the store is asked has got nothing.
  world.request(ask(9));
  EXPECT_EQ(world.last<action::AskStore>().count, 9U);
  world.exchange.reset();
  EXPECT_EQ(lent->calls, "");
  EXPECT_EQ(world.counts(), "handed_out=4");
}

TEST_F(Next, SaysWhyThereAreNoValues) {
  const std::string text =
      "no value for field 'number' of shop.orders (strategy lending): the reason";
  const std::string txn_number = long_field("txnNumber", 1);
  const struct {
    Errc code;
    std::string more;
    std::string answer;
  } rows[] = {
      {Errc::unavailable, "", error(6, "HostUnreachable", text)},
      {Errc::unavailable, txn_number, error(6, "HostUnreachable", text, {"RetryableWriteError"})},
      {Errc::exhausted, "", error(96, "OperationFailed", text)},
      {Errc::exhausted, txn_number, error(96, "OperationFailed", text)},
  };
  for (const auto& row : rows) {
    ExchangeWorld world(lending(0));
    world.request(ask(2, row.more));
    EXPECT_EQ(world.reply_with(kMay), ActionKind::ask_store);
    EXPECT_EQ(world.answer(ids::Error{row.code, "the reason"}), ActionKind::reply);
    EXPECT_EQ(answer(world), expected(row.answer));
    EXPECT_EQ(world.exchange->facts().handed_out, 0U);

    lent->errors = {{row.code, "the reason"}};  // without asking the store
    EXPECT_EQ(world.request(ask(2, row.more)), ActionKind::reply);
    EXPECT_EQ(answer(world), expected(row.answer));
    EXPECT_EQ(world.counts(), "");
  }
}

TEST_F(Next, SaysThatTheRuleIsNotReady) {
  const auto store = std::make_shared<FakeStore>();
  store->set({ids::Readiness::Kind::not_ready, {Errc::exhausted, "no index"}});
  std::vector<Rule> all;
  all.push_back(rule("shop.*", "number"));
  ExchangeWorld world(std::make_shared<const RuleSet>(std::move(all), "idproxy", store));
  world.request(ask());
  world.reply_with(kMay);
  EXPECT_EQ(answer(world),
            expected(error(96, "OperationFailed",
                           "no value for field 'number' of shop.orders (strategy counting): no "
                           "index")));
}

TEST_F(Next, SaysThatNoRuleFillsTheField) {
  ExchangeWorld world(counting());
  world.request(ask_for("numbr"));
  world.reply_with(kMay);
  EXPECT_EQ(answer(world),
            expected(error(2, "BadValue",
                           "no rule fills this field in shop.orders; fields that rules fill "
                           "there: number, code")));
  const std::string none =
      "no rule applies to shop.items: none has a matching 'ns', or it is a view or a time-series "
      "collection";
  for (const std::int32_t code : {53, 166, 2}) {
    world.memory.rights.forget();
    world.request(ask_for("number", "", 0, "shop.items"));
    EXPECT_EQ(world.bytes(), question("", 0, "items"));
    world.reply_with(refusing(code));
    EXPECT_EQ(answer(world), expected(error(2, "BadValue", none))) << code;
  }
}

/// Those who may not insert there learn nothing about rules.
TEST_F(Next, SaysNothingAboutRulesToOthers) {
  for (const std::string& denied :
       {failure(13, "not authorized"), refusing(13, "not authorized")}) {
    ExchangeWorld world(counting());
    world.request(ask_for("number", "", 0, "shop.items"));
    world.reply_with(denied);
    EXPECT_EQ(answer(world).find("no rule"), std::string::npos);
    EXPECT_NE(answer(world).find("not authorized"), std::string::npos);
  }
}

/// Gives texts of a length.
class LongTexts final : public ids::Source {
 public:
  explicit LongTexts(std::size_t length) : length_(length) {}
  [[nodiscard]] std::size_t most_bytes() const override { return 4 + length_ + 1; }
  ids::Draw next(std::size_t n, ids::Values& out) override {
    for (; n > 0; --n) std::fill_n(out.add_string(length_), length_, std::uint8_t{'x'});
    return {};
  }

 private:
  std::size_t length_;
};

TEST_F(Next, StaysBelowWhatAReplyMayHave) {
  for (const std::size_t length : {100U, 155U, 156U, 1000U}) {
    Rule rule = test::rule("shop.*", "number");
    rule.strategy = shared_source<LongTexts>(length);
    ExchangeWorld world(rule_set_of(std::move(rule)));
    world.request(ask(100'000));
    world.reply_with(kMay);
    const auto view = wire::OpMsgView::parse(as_bytes(world.bytes()));
    ASSERT_TRUE(view);
    const bool fits = bson::find(view->body(), "ids").has_value();
    EXPECT_EQ(fits, length <= 155) << length;
    EXPECT_LE(static_cast<std::int64_t>(view->body().size()), bson::kMaxInternalDocument);
    EXPECT_TRUE(bson::well_formed(view->body(), 3));
    EXPECT_EQ(world.counts(), fits ? "handed_out=100000" : "");
    if (!fits) {
      EXPECT_EQ(bson::find(view->body(), "code")->as_integer(), 10334);
      world.request(ask(10'000));
      EXPECT_EQ(world.counts(), "handed_out=10000") << "fewer at once";
    }
  }
}

}  // namespace next_test
}  // namespace idproxy::rewrite
