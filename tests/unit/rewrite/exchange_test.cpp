#include "idproxy/rewrite/exchange.hpp"

#include "support/exchange_script.hpp"
#include "support/scripted_source.hpp"

namespace idproxy::rewrite {
namespace exchange_test {

using namespace test;
using namespace std::chrono_literals;

constexpr Form kForms[] = {Form::sequence, Form::array};

std::shared_ptr<const RuleSet> only_id() {
  return rule_set_of(rule("shop.*", "_id"));
}
ExchangeScript::Rules retrying(Retry retry) {
  return [retry] { return rule_set_of(with(retry, rule("shop.*", "_id"))); };
}

// ---- which documents go again ----------------------------------------------------------------

TEST(Exchange, SendsAgainWhatCollidedInAnUnorderedBatch) {
  for (const Form form : kForms) {
    for (const bool numbered : {true, false}) {
      const std::string options = kUnordered + (numbered ? kTxnNumber : "");
      const auto numbers = [&](std::vector<std::int32_t> all) {
        return numbered ? all : std::vector<std::int32_t>{};
      };
      ExchangeScript(only_id)
          .request(client(form, options, {nth(0), nth(1), nth(2), nth(3), nth(4)}))
          .sends(client(form, options, {nth(0, 1), nth(1, 2), nth(2, 3), nth(3, 4), nth(4, 5)}))
          .reply(n(3) + write_errors({duplicate(1), duplicate(3)}) + ok())
          .sends(part(options, {nth(1, 6), nth(3, 7)}, numbers({1, 3})))
          .reply(n(1) + write_errors({duplicate(0)}) + ok())
          .sends(part(options, {nth(1, 8)}, numbers({1})))
          .reply(n(1) + ok())
          .replies(n(5) + ok())
          .counts("assigned=5 resent=3 cured=2")
          .play();
    }
  }
}

TEST(Exchange, SendsTheTailOfAnOrderedBatchAgain) {
  for (const Form form : kForms) {
    for (const bool numbered : {true, false}) {
      const std::string options = numbered ? kTxnNumber : "";
      const auto numbers = [&](std::vector<std::int32_t> all) {
        return numbered ? all : std::vector<std::int32_t>{};
      };
      // Only the document that collided gets another value.
      ExchangeScript(only_id)
          .request(client(form, options, {nth(0), nth(1), nth(2), nth(3), nth(4)}))
          .sends(client(form, options, {nth(0, 1), nth(1, 2), nth(2, 3), nth(3, 4), nth(4, 5)}))
          .reply(n(1) + write_errors({duplicate(1)}) + ok())
          .sends(part(options, {nth(1, 6), nth(2, 3), nth(3, 4), nth(4, 5)}, numbers({1, 2, 3, 4})))
          .reply(n(0) + write_errors({duplicate(0)}) + ok())
          .sends(part(options, {nth(1, 7), nth(2, 3), nth(3, 4), nth(4, 5)}, numbers({1, 2, 3, 4})))
          .reply(n(2) + write_errors({duplicate(2)}) + ok())
          .sends(part(options, {nth(3, 8), nth(4, 5)}, numbers({3, 4})))
          .reply(n(2) + ok())
          .replies(n(5) + ok())
          .counts("assigned=5 resent=3 cured=2")
          .play();
    }
  }
}

TEST(Exchange, NumbersStatementsAsTheClientDoes) {
  const struct {
    const char* name;
    std::string numbers;
    std::vector<std::int32_t> unordered, tail;
  } rows[] = {
      {"by position", "", {1, 3}, {1, 2, 3}},
      {"from stmtId on", int_field("stmtId", 100), {101, 103}, {101, 102, 103}},
      {"from a negative stmtId on", int_field("stmtId", -2), {-1, 1}, {-1, 0, 1}},
      {"up to the largest",
       int_field("stmtId", 2'147'483'644),
       {2'147'483'645, 2'147'483'647},
       {2'147'483'645, 2'147'483'646, 2'147'483'647}},
      {"as in stmtIds", numbers_field("stmtIds", {7, -3, 900'000, 0}), {-3, 0}, {-3, 900'000, 0}},
  };
  const std::vector<std::string> documents = {nth(0), nth(1), nth(2), nth(3)};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const Form form : kForms) {
      ExchangeScript(only_id)
          .request(client(form, row.numbers + kUnordered + kTxnNumber, documents))
          .sends(client(form, row.numbers + kUnordered + kTxnNumber,
                        {nth(0, 1), nth(1, 2), nth(2, 3), nth(3, 4)}))
          .reply(n(2) + write_errors({duplicate(1), duplicate(3)}) + ok())
          .sends(part(kUnordered + kTxnNumber, {nth(1, 5), nth(3, 6)}, row.unordered))
          .reply(n(2) + ok())
          .replies(n(4) + ok())
          .counts("assigned=4 resent=2 cured=2")
          .play();
      ExchangeScript(only_id)
          .request(client(form, kTxnNumber + row.numbers, documents))
          .sends(
              client(form, kTxnNumber + row.numbers, {nth(0, 1), nth(1, 2), nth(2, 3), nth(3, 4)}))
          .reply(n(1) + write_errors({duplicate(1)}) + ok())
          .sends(part(kTxnNumber, {nth(1, 5), nth(2, 3), nth(3, 4)}, row.tail))
          .reply(n(3) + ok())
          .replies(n(4) + ok())
          .counts("assigned=4 resent=1 cured=1")
          .play();
    }
  }
}

/// What mongod refuses, or what cannot be numbered, goes once, and its answer passes.
TEST(Exchange, SendsOnceWhatItCannotDivide) {
  const struct {
    const char* name;
    std::string options;
  } rows[] = {
      {"numbers past int32", int_field("stmtId", 2'147'483'647) + kTxnNumber},
      {"fewer numbers than documents", numbers_field("stmtIds", {4}) + kTxnNumber},
      {"more numbers than documents", numbers_field("stmtIds", {4, 5, 6}) + kTxnNumber},
      {"stmtId and stmtIds",
       int_field("stmtId", 1) + numbers_field("stmtIds", {4, 5}) + kTxnNumber},
      {"txnNumber is int32", int_field("txnNumber", 1)},
      {"txnNumber twice", kTxnNumber + kTxnNumber},
      {"ordered is text", string_field("ordered", "yes")},
      {"ordered twice", kUnordered + kUnordered},
      {"autocommit: true", kTxnNumber + bool_field("autocommit", true)},
      {"maxTimeMS negative", int_field("maxTimeMS", -1)},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const Form form : kForms) {
      ExchangeScript(only_id)
          .request(client(form, row.options, {nth(0), nth(1)}))
          .sends(client(form, row.options, {nth(0, 1), nth(1, 2)}))
          .reply(n(1) + write_errors({duplicate(1)}) + ok())
          .relays()
          .counts("assigned=2")
          .play();
    }
  }
}

// ---- whose error -----------------------------------------------------------------------------

TEST(Exchange, PassesErrorsThatAreNotOursAtTheirIndex) {
  const auto sent = [](Form form, const std::string& options) {
    return ExchangeScript(only_id)
        .request(client(form, options, {nth(0), nth(1), nth(2), nth(3)}))
        .sends(client(form, options, {nth(0, 1), nth(1, 2), nth(2, 3), nth(3, 4)}));
  };
  const std::string invalid = string_field("errmsg", "Document failed validation");
  for (const Form form : kForms) {
    // Beside one that is.
    sent(form, kUnordered)
        .reply(n(1) +
               write_errors({duplicate(0, {"mail"}), duplicate(2), write_error(3, 121, invalid)}) +
               ok())
        .sends(part(kUnordered, {nth(2, 5)}))
        .reply(n(1) + ok())
        .replies(n(2) + write_errors({duplicate(0, {"mail"}), write_error(3, 121, invalid)}) + ok())
        .counts("assigned=4 resent=1 cured=1 foreign=1")
        .play();
    // In place of it: the fresh value led to the next index.
    sent(form, kUnordered)
        .reply(n(2) + write_errors({duplicate(1), duplicate(3)}) + ok())
        .sends(part(kUnordered, {nth(1, 5), nth(3, 6)}))
        .reply(n(0) + write_errors({write_error(0, 2, invalid), duplicate(1, {"mail"})}) + ok())
        .replies(n(2) + write_errors({write_error(1, 2, invalid), duplicate(3, {"mail"})}) + ok())
        .counts("assigned=4 resent=2 foreign=1")
        .play();
    // An ordered batch ends there.
    sent(form, "")
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .sends(part("", {nth(1, 5), nth(2, 3), nth(3, 4)}))
        .reply(n(1) + write_errors({write_error(1, 121, invalid)}) + ok())
        .replies(n(2) + write_errors({write_error(2, 121, invalid)}) + ok())
        .counts("assigned=4 resent=1 cured=1")
        .play();
    sent(form, "")
        .reply(n(1) + write_errors({duplicate(1, {"mail"})}) + ok())
        .relays()
        .counts("assigned=4 foreign=1")
        .play();
    sent(form, kUnordered + kTxnNumber)
        .reply(n(3) + write_errors({write_error(0, 121, invalid)}) + ok())
        .relays()
        .counts("assigned=4")
        .play();
  }
}

/// The client's own `_id` is its own affair, whatever its neighbours were given.
TEST(Exchange, LeavesTheClientsOwnValuesToTheClient) {
  const std::string own = doc(string_field("_id", "own"));
  ExchangeScript(only_id)
      .request(client(Form::sequence, kUnordered, {own, nth(1)}))
      .sends(client(Form::sequence, kUnordered, {own, nth(1, 1)}))
      .reply(n(0) + write_errors({duplicate(0), duplicate(1)}) + ok())
      .sends(part(kUnordered, {nth(1, 2)}))
      .reply(n(1) + ok())
      .replies(n(1) + write_errors({duplicate(0)}) + ok())
      .counts("assigned=1 resent=1 cured=1")
      .play();
}

TEST(Exchange, RenewsTheFieldsOfTheViolatedIndexOnly) {
  const auto rules = [] {
    return rule_set_of(rule("shop.*", "_id"), rule("shop.*", "a"), rule("shop.*", "b.c"));
  };
  const auto with_values = [](std::int64_t id, std::int64_t a, std::int64_t c) {
    return doc(long_field("_id", id) + int_field("x", 0) + long_field("a", a) +
               doc_field("b", long_field("c", c)));
  };
  const struct {
    const char* name;
    std::vector<std::vector<std::string>> keys;  // by reply
    std::vector<std::string> sent;               // after each of them
  } rows[] = {
      {"one index after the other",
       {{"_id"}, {"a"}, {"b.c"}, {"_id"}},
       {with_values(2, 1, 1), with_values(2, 2, 1), with_values(2, 2, 2), with_values(3, 2, 2)}},
      {"two fields in one index", {{"a", "b.c"}}, {with_values(1, 2, 2)}},
      {"a field of ours and one of theirs", {{"x", "a"}}, {with_values(1, 2, 1)}},
      {"an index on a document that ours lies in", {{"b"}}, {with_values(1, 1, 2)}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    for (const std::string& numbers : {std::string(), kTxnNumber}) {
      ExchangeScript script(rules);
      script.request(client(Form::sequence, numbers, {nth(0)}))
          .sends(client(Form::sequence, numbers, {with_values(1, 1, 1)}));
      const std::vector<std::int32_t> first =
          numbers.empty() ? std::vector<std::int32_t>{} : std::vector<std::int32_t>{0};
      for (std::size_t i = 0; i < row.keys.size(); ++i) {
        script.reply(n(0) + write_errors({duplicate(0, row.keys[i])}) + ok())
            .sends(part(numbers, {row.sent[i]}, first));
      }
      script.reply(n(1) + ok())
          .replies(n(1) + ok())
          .counts("assigned=3 resent=" + std::to_string(row.keys.size()) + " cured=1")
          .play();
    }
  }
  ExchangeScript(rules)
      .request(client(Form::array, "", {nth(0)}))
      .sends(client(Form::array, "", {with_values(1, 1, 1)}))
      .reply(n(0) + write_errors({duplicate(0, {"b.c.d"})}) + ok())
      .relays()
      .counts("assigned=3 foreign=1")
      .play();
}

// ---- bounds ----------------------------------------------------------------------------------

TEST(Exchange, CountsAttemptsPerDocument) {
  const Retry twice{.attempts = 2};
  ExchangeScript(retrying(twice))
      .request(client(Form::sequence, kUnordered, {nth(0), nth(1), nth(2)}))
      .sends(client(Form::sequence, kUnordered, {nth(0, 1), nth(1, 2), nth(2, 3)}))
      .reply(n(1) + write_errors({duplicate(1), duplicate(2)}) + ok())
      .sends(part(kUnordered, {nth(1, 4), nth(2, 5)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .sends(part(kUnordered, {nth(2, 6)}))
      .reply(n(0) + write_errors({write_error(0, 11000, duplicate_fields({"_id"}) + ok())}) + ok())
      // The last error, at the client's index.
      .replies(n(2) + write_errors({write_error(2, 11000, duplicate_fields({"_id"}) + ok())}) +
               ok())
      .counts("assigned=3 resent=3 cured=1 given_up=1", "_id")
      .play();
  // In an ordered batch each document has as many.
  ExchangeScript(retrying(Retry{.attempts = 1}))
      .request(client(Form::array, "", {nth(0), nth(1), nth(2)}))
      .sends(client(Form::array, "", {nth(0, 1), nth(1, 2), nth(2, 3)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part("", {nth(0, 4), nth(1, 2), nth(2, 3)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .sends(part("", {nth(1, 5), nth(2, 3)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .replies(n(1) + write_errors({duplicate(1)}) + ok())
      .counts("assigned=3 resent=2 cured=1 given_up=1", "_id")
      .play();
  for (const Form form : kForms) {
    ExchangeScript(retrying(Retry{.attempts = 0}))
        .request(client(form, "", {nth(0), nth(1)}))
        .sends(client(form, "", {nth(0, 1), nth(1, 2)}))
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .relays()
        .counts("assigned=2 given_up=1", "_id")
        .play();
  }
}

TEST(Exchange, StopsAtTheDeadlineWhichTheFirstDuplicateStarts) {
  const auto script = [](std::chrono::milliseconds until_last) {
    return ExchangeScript(retrying(Retry{.attempts = 100, .deadline = 100ms}))
        .request(client(Form::sequence, kTxnNumber, {nth(0)}))
        .sends(client(Form::sequence, kTxnNumber, {nth(0, 1)}))
        .pass(10s)
        .reply(n(0) + write_errors({duplicate(0)}) + ok())
        .sends(part(kTxnNumber, {nth(0, 2)}, {0}))
        .pass(until_last)
        .reply(n(0) + write_errors({duplicate(0)}) + ok());
  };
  script(99ms)
      .sends(part(kTxnNumber, {nth(0, 3)}, {0}))
      .reply(n(1) + ok())
      .replies(n(1) + ok())
      .counts("assigned=1 resent=2 cured=1")
      .play();
  script(100ms)
      .replies(n(0) + write_errors({duplicate(0)}) + ok())
      .counts("assigned=1 resent=1 given_up=1", "_id")
      .play();
}

TEST(Exchange, WaitsTwiceAsLongEachTimeWithJitter) {
  // Half of the backoff, and of the rest what the random number makes of it: nothing, all, 1 ns.
  const std::string random =
      "0000000000000000 0000000000989680 0000000000000001 0000000000000000 0000000000000000";
  const Retry retry{.attempts = 5, .backoff = 10ms, .backoff_max = 35ms};
  ExchangeScript script(retrying(retry), random);
  script.request(client(Form::sequence, "", {nth(0)}))
      .sends(client(Form::sequence, "", {nth(0, 1)}));
  const std::chrono::nanoseconds delays[] = {5ms, 20ms, 17'500'001ns, 17'500'000ns, 17'500'000ns};
  std::int64_t value = 2;
  for (const auto delay : delays) {
    script.reply(n(0) + write_errors({duplicate(0)}) + ok())
        .waits(delay)
        .pass(delay)
        .resume()
        .sends(part("", {nth(0, value++)}));
  }
  script.reply(n(0) + write_errors({duplicate(0)}) + ok())
      .replies(n(0) + write_errors({duplicate(0)}) + ok())
      .counts("assigned=1 resent=5 given_up=1", "_id")
      .play();
}

/// Two documents wait for the longer of their backoffs, once.
TEST(Exchange, WaitsOnceForAll) {
  const auto rules = [] {
    return rule_set_of(with({.backoff = 2ms}, rule("shop.*", "a")),
                       with({.backoff = 8ms}, rule("shop.*", "b")));
  };
  const auto values = [](std::int32_t i, std::int64_t a, std::int64_t b) {
    return doc(int_field("x", i) + long_field("a", a) + long_field("b", b));
  };
  ExchangeScript(rules, "0000000000000000")
      .request(client(Form::array, kUnordered, {nth(0), nth(1)}))
      .sends(client(Form::array, kUnordered, {values(0, 1, 1), values(1, 2, 2)}))
      .reply(n(0) + write_errors({duplicate(0, {"a"}), duplicate(1, {"b"})}) + ok())
      .waits(4ms)
      .pass(4ms)
      .resume()
      .sends(part(kUnordered, {values(0, 3, 1), values(1, 2, 3)}))
      .reply(n(2) + ok())
      .replies(n(2) + ok())
      .counts("assigned=4 resent=2 cured=2")
      .play();
}

TEST(Exchange, DoesNotWaitPastTheDeadline) {
  ExchangeScript(retrying(Retry{.backoff = 50ms, .deadline = 50ms}))
      .request(client(Form::sequence, "", {nth(0)}))
      .sends(client(Form::sequence, "", {nth(0, 1)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .relays()
      .counts("assigned=1 given_up=1", "_id")
      .play();
}

TEST(Exchange, ChargesMaxTimeAcrossAttempts) {
  const auto time = [](std::int64_t left) { return long_field("maxTimeMS", left) + kUnordered; };
  const std::string asked = int_field("maxTimeMS", 100) + kUnordered;
  const auto sent = [&] {
    return ExchangeScript(only_id)
        .request(client(Form::sequence, asked, {nth(0), nth(1)}))
        .sends(client(Form::sequence, asked, {nth(0, 1), nth(1, 2)}))
        .pass(30ms)
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .sends(part(time(70), {nth(1, 3)}));
  };
  sent()
      .pass(69ms)
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part(time(1), {nth(1, 4)}))
      .reply(n(1) + ok())
      .replies(n(2) + ok())
      .counts("assigned=2 resent=2 cured=1")
      .play();
  sent()
      .pass(70ms)
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .replies(n(1) + write_errors({duplicate(1)}) + ok())
      .counts("assigned=2 resent=1 given_up=1", "_id")
      .play();
  // 0: no limit.
  const std::string zero = int_field("maxTimeMS", 0);
  ExchangeScript(only_id)
      .request(client(Form::array, zero, {nth(0)}))
      .sends(client(Form::array, zero, {nth(0, 1)}))
      .pass(1h)
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part("", {nth(0, 2)}))
      .reply(n(1) + ok())
      .replies(n(1) + ok())
      .counts("assigned=1 resent=1 cured=1")
      .play();
}

/// A timer may come late: then there is no time left for what it was to send.
TEST(Exchange, StopsIfTheTimeIsUpAfterTheBackoff) {
  const std::string options = int_field("maxTimeMS", 100) + kUnordered;
  ExchangeScript(retrying(Retry{.backoff = 20ms}), "0000000000000000")
      .request(client(Form::sequence, options, {nth(0), nth(1)}))
      .sends(client(Form::sequence, options, {nth(0, 1), nth(1, 2)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .waits(10ms)
      .pass(100ms)
      .resume()
      .replies(n(1) + write_errors({duplicate(1)}) + ok())
      .counts("assigned=2 given_up=1")
      .play();
}

// ---- bytes -----------------------------------------------------------------------------------

/// Every field of the body goes along as it is, in its order, but for what says which documents
/// these are.
TEST(Exchange, CopiesTheBodyByteForByte) {
  const std::string before =
      string_field("insert", "orders") + doc_field("writeConcern", string_field("w", "majority")) +
      bool_field("bypassDocumentValidation", true) + string_field("comment", "c") + kUnordered;
  const std::string after =
      doc_field("lsid", element(bson::Type::binary, "id", i32(16) + '\4' + std::string(16, 'u'))) +
      kTxnNumber + doc_field("$clusterTime", timestamp_field("clusterTime", 9)) +
      string_field("apiVersion", "1") + element(bson::Type::null, "unheardOf", "") +
      string_field("$db", "shop") + doc_field("$readPreference", string_field("mode", "primary"));
  const auto array = [&](const std::vector<std::string>& documents) {
    return op_msg(body(doc(before + array_field("documents", documents) + after)));
  };
  const auto sequence_first = [&](const std::vector<std::string>& documents) {
    return op_msg(sequence("documents", documents) + body(doc(before + after)));
  };
  const std::string again = op_msg(body(doc(before + after + numbers_field("stmtIds", {1}))) +
                                   sequence("documents", {nth(1, 3)}));
  const auto play = [&](const auto& form) {
    ExchangeScript(only_id)
        .request(form({nth(0), nth(1)}))
        .sends(form({nth(0, 1), nth(1, 2)}))
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .sends(again)
        .reply(n(1) + ok())
        .replies(n(2) + ok())
        .counts("assigned=2 resent=1 cured=1")
        .play();
  };
  play(array);
  play(sequence_first);
}

TEST(Exchange, KeepsFlagsAndChecksums) {
  for (const std::uint32_t flags : {wire::flag::kChecksumPresent, wire::flag::kExhaustAllowed,
                                    wire::flag::kChecksumPresent | wire::flag::kExhaustAllowed}) {
    for (const Form form : kForms) {
      const std::uint32_t answer = flags & wire::flag::kChecksumPresent;
      ExchangeScript(only_id)
          .request(client(form, kTxnNumber, {nth(0), nth(1)}, flags))
          .sends(client(form, kTxnNumber, {nth(0, 1), nth(1, 2)}, flags))
          .reply(n(0) + write_errors({duplicate(0)}) + ok(), answer)
          .sends(part(kTxnNumber, {nth(0, 3), nth(1, 2)}, {0, 1}, flags))
          .reply(n(2) + ok(), answer)
          .replies(n(2) + ok(), answer)
          .counts("assigned=2 resent=1 cured=1")
          .play();
    }
  }
}

// ---- values ----------------------------------------------------------------------------------

/// Each draw is shown every value that the request had before, so that none comes again.
TEST(Exchange, ShowsTheStrategyWhatHasCollided) {
  for (const Form form : kForms) {
    auto source = std::make_shared<ScriptedSource>(std::vector<std::int64_t>{11, 12, 13, 14});
    const ScriptedSource& seen = *source;
    Rule rule = test::rule("shop.*", "_id");
    rule.strategy = test::shared_source(std::move(source));
    ExchangeWorld world(rule_set_of(std::move(rule)));
    ASSERT_EQ(world.request(client(form, "", {nth(0), nth(1)})), ActionKind::send);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(world.reply_with(n(0) + write_errors({duplicate(0)}) + ok()), ActionKind::send);
    }
    EXPECT_EQ(world.bytes().substr(8), part("", {nth(0, 14), nth(1, 12)}).substr(8));
    EXPECT_EQ(seen.shown, (std::vector<std::vector<std::int64_t>>{{}, {11, 12}, {11, 12, 13}}));
  }
}

/// A value is drawn for those that go again alone; where there are not enough, the last stay
/// behind.
TEST(Exchange, SharesTheLastValuesOut) {
  const auto rules = [] {
    Rule rule = test::rule("shop.*", "_id");
    rule.strategy = shared_source<ScriptedSource>(std::vector<std::int64_t>{1, 2, 3, 4, 5});
    return rule_set_of(std::move(rule));
  };
  for (const Form form : kForms) {
    ExchangeScript(rules)
        .request(client(form, kUnordered + kTxnNumber, {nth(0), nth(1), nth(2)}))
        .sends(client(form, kUnordered + kTxnNumber, {nth(0, 1), nth(1, 2), nth(2, 3)}))
        .reply(n(0) + write_errors({duplicate(0), duplicate(1), duplicate(2)}) + ok())
        .sends(part(kUnordered + kTxnNumber, {nth(0, 4), nth(1, 5)}, {0, 1}))
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .replies(n(1) + write_errors({duplicate(1), duplicate(2)}) + ok())
        .counts("assigned=3 resent=2 cured=1 given_up=2", "_id")
        .play();
    ExchangeScript([] { return rule_set_of(rule("shop.*", "_id", Assign::missing, 2)); })
        .request(client(form, "", {nth(0), nth(1)}))
        .sends(client(form, "", {nth(0, 1), nth(1, 2)}))
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .relays()
        .counts("assigned=2 given_up=1", "_id")
        .play();
  }
}

/// One of two fields has no value left: the document keeps its error.
TEST(Exchange, NeedsAFreshValueForEachFieldOfTheIndex) {
  const auto rules = [] {
    return rule_set_of(rule("shop.*", "a"), rule("shop.*", "b", Assign::missing, 2));
  };
  const auto values = [](std::int32_t i, std::int64_t both) {
    return doc(int_field("x", i) + long_field("a", both) + long_field("b", both));
  };
  const auto sent = [&] {
    return ExchangeScript(rules)
        .request(client(Form::sequence, kUnordered, {nth(0), nth(1)}))
        .sends(client(Form::sequence, kUnordered, {values(0, 1), values(1, 2)}));
  };
  sent()
      .reply(n(1) + write_errors({duplicate(1, {"a", "b"})}) + ok())
      .relays()
      .counts("assigned=4 given_up=1", "a")
      .play();
  sent()
      .reply(n(0) + write_errors({duplicate(0, {"a", "b"}), duplicate(1, {"a"})}) + ok())
      .sends(part(kUnordered, {doc(int_field("x", 1) + long_field("a", 4) + long_field("b", 2))}))
      .reply(n(1) + ok())
      .replies(n(1) + write_errors({duplicate(0, {"a", "b"})}) + ok())
      .counts("assigned=4 resent=1 cured=1 given_up=1", "a")
      .play();
}

/// None is drawn for a document that stays behind.
TEST(Exchange, DrawsForThoseThatGoAgainOnly) {
  const auto rules = [] {
    return rule_set_of(rule("shop.*", "a"), with({.attempts = 0}, rule("shop.*", "b")));
  };
  const auto values = [](std::int32_t i, std::int64_t a, std::int64_t b) {
    return doc(int_field("x", i) + long_field("a", a) + long_field("b", b));
  };
  ExchangeScript(rules)
      .request(client(Form::array, kUnordered, {nth(0), nth(1)}))
      .sends(client(Form::array, kUnordered, {values(0, 1, 1), values(1, 2, 2)}))
      .reply(n(0) + write_errors({duplicate(0, {"a", "b"}), duplicate(1, {"a"})}) + ok())
      .sends(part(kUnordered, {values(1, 3, 2)}))
      .reply(n(1) + ok())
      .replies(n(1) + write_errors({duplicate(0, {"a", "b"})}) + ok())
      .counts("assigned=4 resent=1 cured=1 given_up=1", "a")
      .play();
}

// ---- a reload --------------------------------------------------------------------------------

TEST(Exchange, GoesOnWithItsRulesAfterAReload) {
  for (const Form form : kForms) {
    auto rules = rule_set_of(with(Retry{.attempts = 1}, rule("shop.*", "_id")));
    const std::weak_ptr<const RuleSet> before = rules;
    ExchangeWorld world(std::move(rules));
    ASSERT_EQ(world.request(client(form, "", {nth(0)})), ActionKind::send);
    world.reload(rule_set_of(rule("other.*", "number")));
    ASSERT_EQ(world.reply_with(n(0) + write_errors({duplicate(0)}) + ok()), ActionKind::send);
    EXPECT_EQ(world.bytes(), addressed(part("", {nth(0, 2)}), world.exchange->request_id(), 0));
    ASSERT_EQ(world.reply_with(n(0) + write_errors({duplicate(0)}) + ok()), ActionKind::reply);
    EXPECT_EQ(world.exchange->facts().given_up->rule->field, "_id");
    EXPECT_EQ(before.lock()->outcomes(0).given_up, 1U);
    EXPECT_EQ(world.request(client(form, "", {nth(0)})), ActionKind::relay);
    EXPECT_TRUE(before.expired());
  }
}

TEST(Exchange, NamesTheRuleThatFoundDriverMadeIdsAfterAReload) {
  ExchangeWorld world(rule_set_of(rule("shop.*", "_id")));
  const std::string made = element(bson::Type::object_id, "_id", std::string(12, '\0'));
  world.clock.set(std::chrono::seconds(0));
  ASSERT_EQ(world.request(client(Form::array, "", {doc(made)})), ActionKind::relay);
  world.reload(rule_set_of());
  ASSERT_NE(world.exchange->facts().driver_made, nullptr);
  EXPECT_EQ(world.exchange->facts().driver_made->rule->field, "_id");
  EXPECT_FALSE(world.exchange->facts().driver_made->outcomes->driver_made_logged);
}

// ---- other messages --------------------------------------------------------------------------

TEST(Exchange, CountsWhatNobodyWillHearOf) {
  for (const Form form : kForms) {
    ExchangeWorld world(only_id());
    ASSERT_EQ(world.request(client(form, "", {nth(0), nth(1)}, wire::flag::kMoreToCome)),
              ActionKind::send);
    EXPECT_FALSE(world.exchange->awaits_reply());
    EXPECT_EQ(world.counts(), "assigned=2 unacknowledged=2");
  }
}

TEST(Exchange, CountsNothingOfAnInsertThatFailsHere) {
  ExchangeWorld world(rule_set_of(rule("shop.*", "_id", Assign::missing, 1)));
  ASSERT_EQ(world.request(client(Form::sequence, "", {nth(0), nth(1)})), ActionKind::reply);
  EXPECT_FALSE(world.exchange->awaits_reply());
  EXPECT_EQ(world.counts(), "");
}

/// writeConcern {w: 0} in a message that wants an answer gets {n: 0, ok: 1} (observed, 6.0.5):
/// nobody knows what is stored, and nothing is reported.
TEST(Exchange, PassesTheReplyToAnInsertWithoutAcknowledgement) {
  const std::string w0 = doc_field("writeConcern", int_field("w", 0));
  const auto rules = [] {
    auto id = rule("shop.*", "_id");
    id.report = true;
    return rule_set_of(std::move(id));
  };
  for (const std::string& reply : {n(0) + ok(), ok(), n(1) + ok()}) {
    ExchangeScript(rules)
        .request(client(Form::array, w0, {nth(0)}))
        .sends(client(Form::array, w0, {nth(0, 1)}))
        .reply(reply)
        .relays()
        .counts("assigned=1")
        .play();
  }
}

TEST(Exchange, GivesTheBufferBack) {
  for (const Form form : kForms) {
    ExchangeWorld world(only_id());
    const std::string bytes = client(form, "", {nth(0), nth(1)});
    ASSERT_EQ(world.request(bytes, true), ActionKind::send);
    ASSERT_EQ(world.reply_with(n(1) + write_errors({duplicate(1)}) + ok()), ActionKind::send);
    EXPECT_EQ(text_of(world.exchange->original()), bytes);
    EXPECT_EQ(text_of(world.exchange->release(world.workspace).view()), bytes);
  }
}

TEST(Exchange, ReportsInFileOrder) {
  ExchangeScript([] {
    auto id = rule("shop.*", "_id");
    auto code = rule("shop.*", "code");
    id.report = code.report = true;
    return rule_set_of(std::move(code), std::move(id));
  })
      .request(client(Form::sequence, "", {nth(0)}))
      .sends(client(Form::sequence, "",
                    {doc(long_field("_id", 1) + int_field("x", 0) + long_field("code", 1))}))
      .reply(n(1) + ok())
      .replies(n(1) + ok() +
               doc_field("idproxy",
                         array_field("assigned",
                                     {doc(int_field("index", 0) + string_field("field", "code") +
                                          long_field("value", 1)),
                                      doc(int_field("index", 0) + string_field("field", "_id") +
                                          long_field("value", 1))})))
      .counts("assigned=2")
      .play_once();
}

TEST(Exchange, NamesADuplicateThatWasAbandoned) {
  ExchangeScript([] { return rule_set_of(with(Retry{.backoff = 20ms}, rule("shop.*", "_id"))); },
                 "0000000000000000")
      .request(client(Form::sequence, int_field("maxTimeMS", 100), {nth(0)}))
      .sends(client(Form::sequence, int_field("maxTimeMS", 100), {nth(0, 1)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .waits(10ms)
      .pass(100ms)
      .resume()
      .replies(n(0) + write_errors({duplicate(0)}) + ok())
      .counts("assigned=1 given_up=1", "_id")
      .play_once();
  ExchangeScript(only_id)
      .request(client(Form::sequence, kTxnNumber, {nth(0)}))
      .sends(client(Form::sequence, kTxnNumber, {nth(0, 1)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part(kTxnNumber, {nth(0, 2)}, {0}))
      .reply(failure(40415, "BSON field 'insert.stmtIds' is an unknown field."))
      .replies(n(0) + write_errors({duplicate(0)}) + ok())
      .counts("assigned=1 resent=1 given_up=1", "_id")
      .play_once();
}

TEST(Exchange, RelaysWhatTheServerWillRefuse) {
  const std::string bad = doc(element(static_cast<bson::Type>(0x42), "x", ""));
  for (const Form form : {Form::sequence, Form::array}) {
    ExchangeWorld world(only_id());
    EXPECT_EQ(world.request(client(form, kTxnNumber, {nth(0), bad, nth(2)})), ActionKind::relay);
    EXPECT_EQ(world.counts(), "");
  }
}

TEST(Exchange, KeepsTimesOfAnEarlierReply) {
  const std::string times = doc_field("$clusterTime", timestamp_field("clusterTime", 9)) +
                            timestamp_field("operationTime", 8);
  ExchangeScript(only_id)
      .request(client(Form::sequence, kUnordered, {nth(0), nth(1)}))
      .sends(client(Form::sequence, kUnordered, {nth(0, 1), nth(1, 2)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok() + times)
      .sends(part(kUnordered, {nth(1, 3)}))
      .reply(n(1) + ok())
      .replies(n(2) + ok() + times)
      .counts("assigned=2 resent=1 cured=1")
      .play_once();
}

TEST(Exchange, CountsWhatWasCuredBeforeAFailure) {
  ExchangeWorld world(only_id());
  ASSERT_EQ(world.request(client(Form::sequence, "", {nth(0), nth(1)})), ActionKind::send);
  ASSERT_EQ(world.reply_with(n(0) + write_errors({duplicate(0)}) + ok()), ActionKind::send);
  ASSERT_EQ(world.reply_with(n(1) + write_errors({duplicate(1)}) + ok()), ActionKind::send);
  ASSERT_EQ(world.reply_with(failure(10107, "not primary")), ActionKind::reply);
  EXPECT_EQ(world.counts(), "assigned=2 resent=2 cured=1");
}

}  // namespace exchange_test
}  // namespace idproxy::rewrite
