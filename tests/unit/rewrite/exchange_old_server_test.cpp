// Writes that a driver may have sent before, to servers that do not say which statements they had
// executed then (MongoDB before 6.0): docs/server-behaviour.md#retryable-writes.

#include "idproxy/rewrite/exchange.hpp"
#include "support/exchange_script.hpp"

namespace idproxy::rewrite {
namespace exchange_old_server_test {

using namespace test;
using namespace std::chrono_literals;

constexpr std::int32_t k4_4 = 9;
constexpr std::int32_t k5_0 = 13;
constexpr std::int32_t k6_0 = 17;
constexpr std::int32_t kInvalid = 2;  // the code of a document that the server refuses as such

const std::string kRepeated = kUnordered + kTxnNumber;

std::shared_ptr<const RuleSet> only_id() {
  return rule_set_of(rule("shop.*", "_id"));
}

const std::string kLost =
    ok(0) +
    string_field("errmsg",
                 "mongo-idproxy: the server has stored only some of the documents, and does not "
                 "say which (MongoDB 4.4 leaves out documents of an unordered insert that a driver "
                 "repeats)") +
    int_field("code", 96) + string_field("codeName", "OperationFailed");

/// Three documents have been sent, and this is the reply.
ExchangeScript answered(std::int32_t server, const std::string& reply,
                        const std::string& options = kRepeated) {
  ExchangeScript script(only_id);
  script.of_server(server)
      .request(client(Form::sequence, options, {nth(0), nth(1), nth(2)}))
      .sends(client(Form::sequence, options, {nth(0, 1), nth(1, 2), nth(2, 3)}))
      .reply(reply);
  return script;
}

void play(const ExchangeScript& script) {
  script.play_once(false);
  script.play_once(true);
}

// ---- an unordered insert that may be a second attempt ------------------------------------------

TEST(ExchangeOldServer, SendsWhatTheServerLeftOut) {
  play(answered(k4_4, n(1) + ok())
           .sends(asks_about({0, 1, 2}))
           .told(executed({2}))
           .sends(part(kRepeated, {nth(0, 1), nth(1, 2)}, {0, 1}))
           .reply(n(2) + ok())
           .replies(n(3) + ok())
           .counts("assigned=3"));
}

TEST(ExchangeOldServer, BelievesServersThatLeaveNothingOut) {
  for (const std::int32_t server : {k5_0, k6_0}) {
    play(answered(server, n(1) + ok()).relays().counts("assigned=3"));
  }
}

TEST(ExchangeOldServer, BelievesAReplyToAllStatementsWithoutErrors) {
  play(answered(k4_4, n(3) + ok()).relays().counts("assigned=3"));
}

TEST(ExchangeOldServer, DoubtsOnlyInsertsThatMayBeRepeated) {
  play(answered(k4_4, n(1) + ok(), kUnordered).relays().counts("assigned=3"));
  play(answered(k4_4, n(1) + ok(), kTxnNumber).relays().counts("assigned=3"));
  play(answered(k4_4, n(1) + ok(), kUnordered + kTransaction).relays().counts("assigned=3"));
}

/// To statements that it has executed the server says so again.
TEST(ExchangeOldServer, GetsAReplyIfAllWereExecuted) {
  play(answered(k4_4, n(2) + write_errors({duplicate(1, {"mail"})}) + ok())
           .sends(asks_about({0, 1, 2}))
           .told(executed({0, 1, 2}))
           .sends(part(kRepeated, {nth(2, 3)}, {2}))
           .reply(n(1) + ok())
           .replies(n(3) + ok())
           .counts("assigned=3"));
}

TEST(ExchangeOldServer, SendsOneByOneIfTheServerDoesNotTell) {
  for (const std::string& answer :
       {failure(13, "not authorized"), executed({3}), n(1) + ok(), ok()}) {
    play(answered(k4_4, n(1) + ok())
             .sends(asks_about({0, 1, 2}))
             .told(answer)
             .sends(part(kRepeated, {nth(0, 1)}, {0}))
             .reply(n(1) + ok())
             .sends(part(kRepeated, {nth(1, 2)}, {1}))
             .reply(n(0) + write_errors({duplicate(0, {"mail"})}) + ok())
             .sends(part(kRepeated, {nth(2, 3)}, {2}))
             .reply(n(1) + ok())
             .replies(n(2) + write_errors({duplicate(1, {"mail"})}) + ok())
             .counts("assigned=3 foreign=1"));
  }
}

TEST(ExchangeOldServer, BelievesErrorsOfWhatIsMissing) {
  const std::string reply = n(2) + write_errors({duplicate(1, {"mail"})}) + ok();
  play(answered(k4_4, reply)
           .sends(asks_about({0, 1, 2}))
           .told(executed({0, 2}))
           .replies(reply)
           .counts("assigned=3 foreign=1"));
  // Only 4.4 has them at wrong positions.
  play(answered(k5_0, reply).relays().counts("assigned=3 foreign=1"));
}

TEST(ExchangeOldServer, FindsTheStatementOfAnError) {
  play(answered(k4_4, n(2) + write_errors({duplicate(0, {"mail"})}) + ok())
           .sends(asks_about({0, 1, 2}))
           .told(executed({0, 2}))
           .sends(part(kRepeated, {nth(1, 2)}, {1}))
           .reply(n(0) + write_errors({duplicate(0, {"mail"})}) + ok())
           .replies(n(2) + write_errors({duplicate(1, {"mail"})}) + ok())
           .counts("assigned=3 foreign=1"));
}

/// The value of the statement that did collide goes again, not that of the position in the reply.
TEST(ExchangeOldServer, RenewsTheValueOfTheStatementThatCollided) {
  play(answered(k4_4, n(2) + write_errors({duplicate(0)}) + ok())
           .sends(asks_about({0, 1, 2}))
           .told(executed({0, 2}))
           .sends(part(kRepeated, {nth(1, 2)}, {1}))
           .reply(n(0) + write_errors({duplicate(0)}) + ok())
           .sends(part(kRepeated, {nth(1, 4)}, {1}))
           .reply(n(1) + ok())
           .replies(n(3) + ok())
           .counts("assigned=3 resent=1 cured=1"));
}

/// 4.4 gives invalid documents no number: those behind them have the numbers of those in front.
TEST(ExchangeOldServer, AsksByTheNumbersThatTheServerGave) {
  const std::string invalid = write_error(0, kInvalid);
  const std::string right = n(1) + write_errors({invalid, duplicate(2, {"mail"})}) + ok();
  play(answered(k4_4, right)
           .sends(asks_about({0, 1}))
           .told(executed({0}))
           .replies(right)
           .counts("assigned=3 foreign=1"));
  play(answered(k4_4, n(2) + write_errors({invalid}) + ok()).relays().counts("assigned=3"));
  play(answered(k5_0, n(1) + write_errors({invalid}) + ok())
           .sends(asks_about({1, 2}))
           .told(executed({0}))
           .replies(kLost)
           .counts("assigned=3"));
}

TEST(ExchangeOldServer, SaysSoIfDocumentsAreLost) {
  play(answered(k4_4, n(1) + write_errors({write_error(0, kInvalid)}) + ok())
           .sends(asks_about({0, 1}))
           .told(executed({0}))
           .replies(kLost)
           .counts("assigned=3"));
  // What is sent once, as its number of a transaction has the wrong type.
  const std::string once = kUnordered + int_field("txnNumber", 1);
  play(answered(k4_4, n(2) + ok(), once).replies(kLost).counts("assigned=3"));
  play(answered(k4_4, n(3) + ok(), once).relays().counts("assigned=3"));
  play(answered(k5_0, n(2) + ok(), once).relays().counts("assigned=3"));
}

TEST(ExchangeOldServer, AsksWithinTheClientsTime) {
  const std::string options = kRepeated + int_field("maxTimeMS", 100);
  ExchangeScript script(only_id);
  script.of_server(k4_4)
      .request(client(Form::sequence, options, {nth(0), nth(1)}))
      .sends(client(Form::sequence, options, {nth(0, 1), nth(1, 2)}))
      .pass(30ms)
      .reply(n(0) + ok())
      .sends(asks_about({0, 1}, long_field("maxTimeMS", 70)))
      .told(executed({0}))
      .sends(client(Form::sequence,
                    kRepeated + long_field("maxTimeMS", 70) + numbers_field("stmtIds", {1}),
                    {nth(1, 2)}))
      .reply(n(1) + ok())
      .replies(n(2) + ok())
      .counts("assigned=2");
  play(script);
  // No time is left for a question.
  play(ExchangeScript(only_id)
           .of_server(k4_4)
           .request(client(Form::sequence, options, {nth(0), nth(1)}))
           .sends(client(Form::sequence, options, {nth(0, 1), nth(1, 2)}))
           .pass(100ms)
           .reply(n(0) + ok())
           .relays()
           .counts("assigned=2"));
}

// ---- a report of values ------------------------------------------------------------------------

std::shared_ptr<const RuleSet> reported() {
  auto number = rule("shop.*", "number");
  number.report = true;
  return rule_set_of(std::move(number));
}

std::string own(std::int32_t id) {
  return doc(int_field("_id", id));
}
std::string own(std::int32_t id, std::int64_t number) {
  return doc(int_field("_id", id) + long_field("number", number));
}

/// The query by which the proxy finds what is stored.
std::string finds(const std::vector<std::int32_t>& ids, const std::string& more = {}) {
  return op_msg(body(doc(string_field("find", "orders") +
                         doc_field("filter", doc_field("_id", numbers_field("$in", ids))) +
                         doc_field("projection", int_field("_id", 1) + int_field("number", 1)) +
                         int_field("batchSize", static_cast<std::int32_t>(ids.size())) +
                         bool_field("singleBatch", true) +
                         doc_field("readConcern", string_field("level", "local")) + more +
                         string_field("$db", "shop"))));
}
std::string found(const std::vector<std::string>& documents) {
  return doc_field("cursor", array_field("firstBatch", documents) + long_field("id", 0)) + ok();
}
std::string report(const std::vector<std::pair<std::int32_t, std::int64_t>>& numbers) {
  std::vector<std::string> entries;
  for (const auto& [index, number] : numbers) {
    entries.push_back(doc(int_field("index", index) + string_field("field", "number") +
                          long_field("value", number)));
  }
  return doc_field("idproxy", array_field("assigned", entries));
}

/// Two documents have been sent, with the numbers 1 and 2, and are stored.
ExchangeScript stored(std::int32_t server, const std::string& options) {
  ExchangeScript script(reported);
  script.of_server(server)
      .request(client(Form::sequence, options, {own(10), own(11)}))
      .sends(client(Form::sequence, options, {own(10, 1), own(11, 2)}))
      .reply(n(2) + ok());
  return script;
}

TEST(ExchangeOldServer, ReportsWhatIsStored) {
  for (const std::int32_t server : {k4_4, k5_0}) {
    play(stored(server, kTxnNumber)
             .sends(finds({10, 11}))
             .told(found({own(11, 2), own(10, 77)}))
             .replies(n(2) + ok() + report({{0, 77}, {1, 2}}))
             .counts("assigned=2"));
  }
}

TEST(ExchangeOldServer, ReportsNothingThatItDoesNotFind) {
  play(stored(k5_0, kTxnNumber)
           .sends(finds({10, 11}))
           .told(found({own(11, 2)}))
           .replies(n(2) + ok() + report({{1, 2}}))
           .counts("assigned=2"));
  for (const std::string& answer : {failure(13, "not authorized"), found({})}) {
    play(stored(k5_0, kTxnNumber)
             .sends(finds({10, 11}))
             .told(answer)
             .replies(n(2) + ok())
             .counts("assigned=2"));
  }
}

TEST(ExchangeOldServer, ReportsFirstAttemptsWithoutALook) {
  play(stored(k5_0, "").replies(n(2) + ok() + report({{0, 1}, {1, 2}})).counts("assigned=2"));
  play(stored(k6_0, kTxnNumber)
           .replies(n(2) + ok() + report({{0, 1}, {1, 2}}))
           .counts("assigned=2"));
}

/// No driver sends documents without an `_id`: there is nothing by which to find them.
TEST(ExchangeOldServer, LooksForIdsThatTheRulesGive) {
  const auto rules = [] {
    auto id = rule("shop.*", "_id");
    id.report = true;
    return rule_set_of(std::move(id));
  };
  const std::string value = long_field("_id", 1);
  const std::string query = op_msg(body(
      doc(string_field("find", "orders") +
          doc_field("filter",
                    doc_field("_id", element(bson::Type::array, "$in", doc(long_field("0", 1))))) +
          doc_field("projection", int_field("_id", 1)) + int_field("batchSize", 1) +
          bool_field("singleBatch", true) +
          doc_field("readConcern", string_field("level", "local")) + string_field("$db", "shop"))));
  play(ExchangeScript(rules)
           .of_server(k5_0)
           .request(client(Form::array, kTxnNumber, {nth(0)}))
           .sends(client(Form::array, kTxnNumber, {nth(0, 1)}))
           .reply(n(1) + ok())
           .sends(query)
           .told(found({doc(value)}))
           .replies(n(1) + ok() +
                    doc_field("idproxy", array_field("assigned", {doc(int_field("index", 0) +
                                                                      string_field("field", "_id") +
                                                                      long_field("value", 1))})))
           .counts("assigned=1"));
}

}  // namespace exchange_old_server_test
}  // namespace idproxy::rewrite
