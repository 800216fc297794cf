#include "rewrite/batch.hpp"

#include "support/exchange_script.hpp"

namespace idproxy::rewrite {
namespace batch_test {

using namespace test;
using namespace std::chrono_literals;

std::shared_ptr<const RuleSet> only_id() {
  return rule_set_of(rule("shop.*", "_id"));
}
/// As the only rule, and beside another one, which makes an insert no plain one.
std::shared_ptr<const RuleSet> id_and_other() {
  return rule_set_of(rule("shop.*", "_id"), rule("other.*", "n"));
}

// ---- parts -----------------------------------------------------------------------------------

std::vector<std::string> many(std::int32_t from, std::int32_t to) {
  std::vector<std::string> documents;
  for (std::int32_t i = from; i < to; ++i) documents.push_back(nth(i));
  return documents;
}
/// With value i + 1 in document i.
std::vector<std::string> many_stored(std::int32_t from, std::int32_t to) {
  std::vector<std::string> documents;
  for (std::int32_t i = from; i < to; ++i) documents.push_back(nth(i, i + 1));
  return documents;
}
std::vector<std::int32_t> numbers(std::int32_t from, std::int32_t to) {
  std::vector<std::int32_t> all;
  for (std::int32_t i = from; i < to; ++i) all.push_back(i);
  return all;
}

TEST(Batch, SendsManyUnorderedDocumentsInParts) {
  for (const Form form : {Form::sequence, Form::array}) {
    const bool numbered = form == Form::sequence;
    const std::string options = kUnordered + (numbered ? kTxnNumber : "");
    const auto statements = [&](std::int32_t from, std::int32_t to) {
      return numbered ? numbers(from, to) : std::vector<std::int32_t>{};
    };
    ExchangeScript script(only_id);
    script.request(client(form, options, many(0, 40'001)))
        .sends(part(options, many_stored(0, 20'000), statements(0, 20'000)))
        .reply(n(19'998) + write_errors({duplicate(0), duplicate(19'999)}) + ok())
        // What has collided goes before the next part.
        .sends(part(options, {nth(0, 40'002), nth(19'999, 40'003)},
                    numbered ? std::vector<std::int32_t>{0, 19'999} : std::vector<std::int32_t>{}))
        .reply(n(2) + ok())
        .sends(part(options, many_stored(20'000, 40'000), statements(20'000, 40'000)))
        .reply(n(19'999) + write_errors({duplicate(7, {"mail"})}) + ok())
        .sends(part(options, many_stored(40'000, 40'001), statements(40'000, 40'001)))
        .reply(n(0) + write_errors({duplicate(0)}) + ok())
        .sends(part(options, {nth(40'000, 40'004)}, statements(40'000, 40'001)))
        .reply(n(1) + ok())
        .replies(n(40'000) + write_errors({duplicate(20'007, {"mail"})}) + ok())
        .counts("assigned=40001 resent=3 cured=3 foreign=1")
        .in_parts();
    script.play_once(numbered);
  }
}

TEST(Batch, SendsOneByOneWhatItMay) {
  const std::string options = kUnordered + kTxnNumber;
  ExchangeScript(id_and_other)
      .request(client(Form::array, options, many(0, 20'001)))
      .sends(part(options, many_stored(0, 20'000), numbers(0, 20'000)))
      .reply(n(20'000) + ok())
      .sends(part(options, many_stored(20'000, 20'001), {20'000}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part(options, {nth(20'000, 20'002)}, {20'000}))
      .reply(n(1) + ok())
      .replies(n(20'001) + ok())
      .counts("assigned=20001 resent=1 cured=1")
      .in_parts()
      .play(100);
}

/// The tail of an ordered batch that has collided goes in pieces, half as long with each collision
/// and double where all goes well: many collisions do not cost the square of them.
TEST(Batch, SendsALongTailInPieces) {
  const auto stored = [](std::int32_t from, std::int32_t to, std::int64_t first) {
    auto documents = many_stored(from, to);
    documents.front() = nth(from, first);
    return documents;
  };
  ExchangeScript(only_id)
      .request(client(Form::sequence, kTxnNumber, many(0, 6000)))
      .sends(client(Form::sequence, kTxnNumber, many_stored(0, 6000)))
      .reply(n(100) + write_errors({duplicate(100)}) + ok())
      .sends(part(kTxnNumber, stored(100, 3100, 6001), numbers(100, 3100)))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part(kTxnNumber, stored(100, 1600, 6002), numbers(100, 1600)))
      .reply(n(1500) + ok())
      .sends(part(kTxnNumber, many_stored(1600, 4600), numbers(1600, 4600)))
      .reply(n(3000) + ok())
      .sends(part(kTxnNumber, many_stored(4600, 6000), numbers(4600, 6000)))
      .reply(n(0) + write_errors({duplicate(0, {"mail"})}) + ok())
      .replies(n(4600) + write_errors({duplicate(4600, {"mail"})}) + ok())
      .counts("assigned=6000 resent=2 cured=1 foreign=1")
      .play(100);
}

TEST(Batch, SendsOtherLargeBatchesWhole) {
  const struct {
    const char* name;
    std::string options;
    std::uint32_t flags;
    std::int32_t documents;
  } rows[] = {
      {"ordered", kTxnNumber, 0, 20'001},
      {"in a transaction", kUnordered + kTransaction, 0, 20'001},
      {"unacknowledged", kUnordered, wire::flag::kMoreToCome, 20'001},
      {"not too many", kUnordered + kTxnNumber, 0, 20'000},
  };
  for (const auto& row : rows) {
    ExchangeWorld world(only_id());
    const auto sent = client(Form::sequence, row.options, many(0, row.documents), row.flags);
    ASSERT_EQ(world.request(sent), ActionKind::send) << row.name;
    EXPECT_TRUE(world.bytes() ==
                client(Form::sequence, row.options, many_stored(0, row.documents), row.flags))
        << row.name;
  }
}

const std::string kUnknownField =
    failure(40415, "BSON field 'insert.stmtIds' is an unknown field.");

/// For the server, and so for the deadline, each part is a batch of its own.
TEST(Batch, GivesEachPartItsOwnDeadline) {
  ExchangeScript([] { return rule_set_of(with(Retry{}, rule("shop.*", "_id"))); })
      .request(client(Form::sequence, kUnordered, many(0, 20'002)))
      .sends(part(kUnordered, many_stored(0, 20'000)))
      .reply(n(19'999) + write_errors({duplicate(0)}) + ok())
      .sends(part(kUnordered, {nth(0, 20'003)}))
      .pass(3s)
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part(kUnordered, many_stored(20'000, 20'002)))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .sends(part(kUnordered, {nth(20'001, 20'004)}))
      .reply(n(1) + ok())
      .replies(n(20'001) + write_errors({duplicate(0)}) + ok())
      .counts("assigned=20002 resent=2 cured=1 given_up=1", "_id")
      .in_parts()
      .play_once(true);
}

/// A server that does not know stmtIds gets the batch in one piece.
TEST(Batch, SendsAllAtOnceToAServerThatRejectsStatementNumbers) {
  const std::string options = kUnordered + kTxnNumber;
  ExchangeScript script(only_id);
  script.request(client(Form::array, options, many(0, 20'001)))
      .sends(part(options, many_stored(0, 20'000), numbers(0, 20'000)))
      .reply(kUnknownField)
      .sends_as_the_client(client(Form::sequence, options, many_stored(0, 20'001)))
      .reply(n(20'000) + write_errors({duplicate(5)}) + ok())
      .relays()
      .counts("assigned=20001")
      .in_parts();
  script.play_once();
}

/// Nothing is sent again to it: what was found before is the answer.
TEST(Batch, EndsAtAServerThatRejectsStatementNumbers) {
  for (const std::string& rejection :
       {kUnknownField, failure(72, "stmtIds may not be specified"),
        failure(323, "BSON field 'stmtIds' is not in API Version 1")}) {
    ExchangeScript(only_id)
        .request(client(Form::sequence, kUnordered + kTxnNumber, {nth(0), nth(1), nth(2)}))
        .sends(client(Form::sequence, kUnordered + kTxnNumber, {nth(0, 1), nth(1, 2), nth(2, 3)}))
        .reply(n(1) + write_errors({duplicate(0), duplicate(2, {"_id", "x"})}) + ok())
        .sends(part(kUnordered + kTxnNumber, {nth(0, 4), nth(2, 5)}, {0, 2}))
        .reply(rejection)
        .replies(n(1) + write_errors({duplicate(0), duplicate(2, {"_id", "x"})}) + ok())
        .counts("assigned=3 resent=2 given_up=2")
        .play();
    ExchangeScript(only_id)
        .request(client(Form::array, kTxnNumber, {nth(0), nth(1), nth(2)}))
        .sends(client(Form::array, kTxnNumber, {nth(0, 1), nth(1, 2), nth(2, 3)}))
        .reply(n(1) + write_errors({duplicate(1)}) + ok())
        .sends(part(kTxnNumber, {nth(1, 4), nth(2, 3)}, {1, 2}))
        .reply(rejection)
        .replies(n(1) + write_errors({duplicate(1)}) + ok())
        .counts("assigned=3 resent=1 given_up=1")
        .play();
  }
  // The client's own numbers are the client's affair; and without a txnNumber none were sent.
  ExchangeScript(only_id)
      .request(client(Form::array, kTxnNumber + numbers_field("stmtIds", {3}), {nth(0)}))
      .sends(client(Form::array, kTxnNumber + numbers_field("stmtIds", {3}), {nth(0, 1)}))
      .reply(kUnknownField)
      .relays()
      .counts("assigned=1")
      .play();
  ExchangeScript(only_id)
      .request(client(Form::array, "", {nth(0)}))
      .sends(client(Form::array, "", {nth(0, 1)}))
      .reply(n(0) + write_errors({duplicate(0)}) + ok())
      .sends(part("", {nth(0, 2)}))
      .reply(kUnknownField)
      .replies(kUnknownField)
      .counts("assigned=1 resent=1")
      .play();
}

/// Not true of what was stored before it.
TEST(Batch, AFailedResendDoesNotSayThatNothingIsStored) {
  const auto failed = [](const std::vector<std::string>& labels) {
    return failure(10107, "not primary", labels);
  };
  ExchangeScript(only_id)
      .request(client(Form::array, kUnordered, {nth(0), nth(1)}))
      .sends(client(Form::array, kUnordered, {nth(0, 1), nth(1, 2)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .sends(part(kUnordered, {nth(1, 3)}))
      .reply(failed({"RetryableWriteError", "NoWritesPerformed"}))
      .replies(failed({"RetryableWriteError"}))
      .counts("assigned=2 resent=1")
      .play();
}

TEST(Batch, FailsIfTheTimeIsUpBeforeAPartWasSent) {
  const std::string options = kUnordered + int_field("maxTimeMS", 50);
  ExchangeScript script(only_id);
  script.request(client(Form::sequence, options, many(0, 20'001)))
      .sends(part(kUnordered + long_field("maxTimeMS", 50), many_stored(0, 20'000)))
      .pass(50ms)
      .reply(n(20'000) + ok())
      .replies(ok(0) + string_field("errmsg", "operation exceeded time limit") +
               int_field("code", 50) + string_field("codeName", "MaxTimeMSExpired"))
      .counts("assigned=20000")
      .in_parts();
  // The field stands where the client had it.
  script.play_once();
}

/// Three documents of which two fit into one message.
class LargeDocuments : public ::testing::Test {
 protected:
  static std::string large(std::int64_t id = 0) {
    static const std::string big(
        (48'000'000 - client(Form::sequence, "", std::vector<std::string>(3, make(0, ""))).size()) /
            3,
        'b');
    return make(id, big);
  }
  static ExchangeScript sent(const std::string& options, const std::string& first,
                             const std::vector<std::int32_t>& numbers) {
    ExchangeScript script(only_id);
    script.request(client(Form::sequence, options, {large(), large(), large()}))
        .sends(part(first, {large(1), large(2)}, numbers));
    return script;
  }

 private:
  static std::string make(std::int64_t id, const std::string& big) {
    return doc((id == 0 ? "" : long_field("_id", id)) + string_field("big", big));
  }
};

TEST_F(LargeDocuments, GoInPartsInOrder) {
  sent(kTxnNumber, kTxnNumber, {0, 1})
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .sends(part(kTxnNumber, {large(4), large(3)}, {1, 2}))
      .reply(n(1) + write_errors({duplicate(1, {"mail"})}) + ok())
      .replies(n(2) + write_errors({duplicate(2, {"mail"})}) + ok())
      .counts("assigned=3 resent=1 cured=1 foreign=1")
      .play_once();
}

/// Only the first part begins the transaction, and none names statements.
TEST_F(LargeDocuments, GoInPartsInATransaction) {
  const std::string begin = doc_field("readConcern", string_field("level", "snapshot")) +
                            bool_field("startTransaction", true);
  sent(begin + kTransaction, begin + kTransaction, {})
      .reply(n(2) + ok())
      .sends(part(kTransaction, {large(3)}))
      .reply(n(1) + ok())
      .replies(n(3) + ok())
      .counts("assigned=3")
      .play_once();
}

// ---- errors of the whole command -------------------------------------------------------------

TEST(Batch, CuresATopLevelDuplicateOfOneDocument) {
  const std::string top = failure(11000, "E11000") + doc_field("keyPattern", int_field("_id", 1));
  const auto rules = [](std::uint32_t attempts) {
    return [attempts] { return rule_set_of(with({.attempts = attempts}, rule("shop.*", "_id"))); };
  };
  const auto sent = [&](std::uint32_t attempts) {
    return ExchangeScript(rules(attempts))
        .request(client(Form::sequence, kTxnNumber, {nth(0)}))
        .sends(client(Form::sequence, kTxnNumber, {nth(0, 1)}))
        .reply(top);
  };
  sent(1)
      .sends(part(kTxnNumber, {nth(0, 2)}, {0}))
      .reply(n(1) + ok())
      .replies(n(1) + ok())
      .counts("assigned=1 resent=1 cured=1")
      .play();
  sent(1)
      .sends(part(kTxnNumber, {nth(0, 2)}, {0}))
      .reply(top)
      .replies(top)
      .counts("assigned=1 resent=1 given_up=1", "_id")
      .play();
  sent(0).relays().counts("assigned=1 given_up=1", "_id").play();
  // Of several nobody knows which one it is.
  ExchangeScript(only_id)
      .request(client(Form::sequence, "", {nth(0), nth(1)}))
      .sends(client(Form::sequence, "", {nth(0, 1), nth(1, 2)}))
      .reply(top)
      .relays()
      .counts("assigned=2")
      .play();
}

// ---- refused documents -----------------------------------------------------------------------

/// A document that cannot take its value stands in the tail that goes again: its error is ours at
/// each step, and ends the batch.
TEST(Batch, KeepsRefusedDocumentsInTheirPlace) {
  const auto rules = [] { return rule_set_of(rule("shop.*", "a.b")); };
  const auto value = [](std::int64_t b) { return doc(doc_field("a", long_field("b", b))); };
  const std::string blocked = doc(int_field("a", 1));
  const std::string refused = text_of(refused_document());
  const std::string array = string_field("errmsg", "The '_id' value cannot be of type array");
  const auto not_viable = [](std::int32_t index) {
    return write_error(
        index, 28,
        string_field("errmsg",
                     "mongo-idproxy: cannot create field 'a.b': 'a' is of type number, "
                     "not object"));
  };
  for (const std::string& txn : {std::string(), kTxnNumber}) {
    const auto numbered = [&](std::vector<std::int32_t> all) {
      return txn.empty() ? std::vector<std::int32_t>{} : all;
    };
    ExchangeScript(rules)
        .request(client(Form::sequence, txn, {doc(), doc(), blocked, doc()}))
        .sends(client(Form::sequence, txn, {value(1), value(2), refused, value(3)}))
        .reply(n(1) + write_errors({duplicate(1, {"a.b"})}) + ok())
        .sends(part(txn, {value(4), refused, value(3)}, numbered({1, 2, 3})))
        .reply(n(1) + write_errors({write_error(1, 53, array)}) + ok())
        .replies(n(2) + write_errors({not_viable(2)}) + ok())
        .counts("assigned=3 resent=1 cured=1")
        .play();
    ExchangeScript(rules)
        .request(client(Form::array, kUnordered + txn, {blocked, doc(), doc()}))
        .sends(client(Form::array, kUnordered + txn, {refused, value(1), value(2)}))
        .reply(n(1) + write_errors({write_error(0, 53, array), duplicate(2, {"a.b"})}) + ok())
        .sends(part(kUnordered + txn, {value(3)}, numbered({2})))
        .reply(n(1) + ok())
        .replies(n(2) + write_errors({not_viable(0)}) + ok())
        .counts("assigned=2 resent=1 cured=1")
        .play();
  }
}

// ---- report ----------------------------------------------------------------------------------

struct Reported {
  std::int32_t index;
  const char* field;
  std::int64_t value;
};
std::string report(std::initializer_list<Reported> values) {
  std::vector<std::string> entries;
  for (const auto& [index, field, value] : values) {
    entries.push_back(
        doc(int_field("index", index) + string_field("field", field) + long_field("value", value)));
  }
  return doc_field("idproxy", array_field("assigned", entries));
}

std::shared_ptr<const RuleSet> reporting() {
  auto id = rule("shop.*", "_id");
  auto code = rule("shop.*", "code");
  id.report = code.report = true;
  return rule_set_of(std::move(id), std::move(code), rule("shop.*", "silent"));
}
std::string all_three(std::int32_t i, std::int64_t id, std::int64_t code, std::int64_t silent) {
  return doc(long_field("_id", id) + int_field("x", i) + long_field("code", code) +
             long_field("silent", silent));
}

TEST(Batch, ReportsTheValuesThatAreStored) {
  const std::string own = doc(string_field("_id", "own"));
  const std::string own_stored =
      doc(string_field("_id", "own") + long_field("code", 2) + long_field("silent", 2));
  const auto sent = [&](const std::string& options) {
    return ExchangeScript(reporting)
        .request(client(Form::sequence, options, {nth(0), own, nth(2)}))
        .sends(client(Form::sequence, options,
                      {all_three(0, 1, 1, 1), own_stored, all_three(2, 2, 3, 3)}));
  };
  const std::string times = doc_field("$clusterTime", timestamp_field("clusterTime", 1));
  const std::string all =
      report({{0, "_id", 1}, {0, "code", 1}, {1, "code", 2}, {2, "_id", 2}, {2, "code", 3}});
  sent("")
      .reply(n(3) + ok() + times)
      .replies(n(3) + ok() + times + all)
      .counts("assigned=8")
      .play();
  // In a transaction too.
  sent(kTransaction).reply(n(3) + ok()).replies(n(3) + ok() + all).counts("assigned=8").play();
  // Not of documents that failed, or were not reached.
  sent(kUnordered)
      .reply(n(2) + write_errors({write_error(0, 121)}) + ok())
      .replies(n(2) + write_errors({write_error(0, 121)}) + ok() +
               report({{1, "code", 2}, {2, "_id", 2}, {2, "code", 3}}))
      .counts("assigned=8")
      .play();
  sent("")
      .reply(n(1) + write_errors({write_error(1, 121)}) + ok())
      .replies(n(1) + write_errors({write_error(1, 121)}) + ok() +
               report({{0, "_id", 1}, {0, "code", 1}}))
      .counts("assigned=8")
      .play();
  // Nothing to say: nothing is said.
  sent("")
      .reply(n(0) + write_errors({write_error(0, 121)}) + ok())
      .relays()
      .counts("assigned=8")
      .play();
  sent(kTransaction)
      .reply(n(1) + write_errors({write_error(1, 121)}) + ok())
      .relays()
      .counts("assigned=8")
      .play();
  sent("").reply(failure(10107, "not primary")).relays().counts("assigned=8").play();
  // Of the values that collided, those that took their place.
  sent(kTxnNumber)
      .reply(n(2) + write_errors({duplicate(2, {"code"})}) + ok())
      .sends(part(kTxnNumber, {all_three(2, 2, 4, 3)}, {2}))
      .reply(n(1) + ok())
      .replies(
          n(3) + ok() +
          report({{0, "_id", 1}, {0, "code", 1}, {1, "code", 2}, {2, "_id", 2}, {2, "code", 4}}))
      .counts("assigned=8 resent=1 cured=1")
      .play();
}

/// A driver's second try: what is stored are the values of the first one.
TEST(Batch, DoesNotReportWhatAnEarlierTryHasStored) {
  const auto rules = [] {
    auto id = rule("shop.*", "_id");
    id.report = true;
    return rule_set_of(std::move(id));
  };
  ExchangeScript(rules)
      .request(client(Form::sequence, kUnordered + kTxnNumber, {nth(0), nth(1), nth(2)}))
      .sends(client(Form::sequence, kUnordered + kTxnNumber, {nth(0, 1), nth(1, 2), nth(2, 3)}))
      .reply(n(2) + write_errors({duplicate(1)}) + numbers_field("retriedStmtIds", {0}) + ok())
      .sends(part(kUnordered + kTxnNumber, {nth(1, 4)}, {1}))
      .reply(n(1) + ok())
      .replies(n(3) + numbers_field("retriedStmtIds", {0}) + ok() +
               report({{1, "_id", 4}, {2, "_id", 3}}))
      .counts("assigned=3 resent=1 cured=1")
      .play();
  const std::string numbers = kTxnNumber + numbers_field("stmtIds", {9, 5});
  const std::string retried = numbers_field("retriedStmtIds", {9});
  ExchangeScript(rules)
      .request(client(Form::array, numbers, {nth(0), nth(1)}))
      .sends(client(Form::array, numbers, {nth(0, 1), nth(1, 2)}))
      .reply(n(2) + retried + ok())
      .replies(n(2) + retried + ok() + report({{1, "_id", 2}}))
      .counts("assigned=2")
      .play();
}

// ---- transactions ----------------------------------------------------------------------------

const std::string kElection = element(bson::Type::object_id, "electionId", std::string(12, 'e'));
const std::string kOpTime = timestamp_field("opTime", 0);
const std::string kTimes = doc_field("$clusterTime", timestamp_field("clusterTime", 9)) +
                           timestamp_field("operationTime", 8);
const std::string kAgain =
    ok(0) +
    string_field("errmsg",
                 "mongo-idproxy: the value generated for field '_id' of shop.orders is taken; run "
                 "the transaction again") +
    int_field("code", 112) + string_field("codeName", "WriteConflict") +
    texts_field("errorLabels", {"TransientTransactionError"});

TEST(Batch, TellsTheDriverToRunATransactionAgain) {
  const auto sent = [](const std::string& options) {
    return ExchangeScript(only_id)
        .request(client(Form::sequence, options + kTransaction, {nth(0), nth(1), nth(2)}))
        .sends(client(Form::sequence, options + kTransaction, {nth(0, 1), nth(1, 2), nth(2, 3)}));
  };
  for (const std::string& options : {std::string(), kUnordered}) {
    sent(options)
        .reply(n(1) + kElection + kOpTime + write_errors({duplicate(1)}) + ok() + kTimes)
        .replies(kElection + kOpTime + kAgain + kTimes)
        .counts("assigned=3 transient=1")
        .play();
    sent(options)
        .reply(n(0) + write_errors({duplicate(0)}) + ok(), wire::flag::kChecksumPresent)
        .replies(kAgain, wire::flag::kChecksumPresent)
        .counts("assigned=3 transient=1")
        .play();
    // The application's own error is its own: running it again would never end.
    sent(options)
        .reply(n(1) + write_errors({duplicate(1, {"mail"})}) + ok())
        .relays()
        .counts("assigned=3 foreign=1")
        .play();
    // Another statement has aborted it before.
    sent(options)
        .reply(failure(251, "aborted", {"TransientTransactionError"}))
        .relays()
        .counts("assigned=3")
        .play();
  }
  ExchangeScript(only_id)
      .request(client(Form::array, kTransaction, {nth(0)}))
      .sends(client(Form::array, kTransaction, {nth(0, 1)}))
      .reply(failure(11000, "E11000") + doc_field("keyPattern", int_field("_id", 1)) + kTimes)
      .replies(kAgain + kTimes)
      .counts("assigned=1 transient=1")
      .play();
}

TEST(Batch, SurfacesDuplicatesInTransactionsWhereTold) {
  const auto rules = [] {
    auto id = rule("shop.*", "_id");
    id.in_transaction = InTransaction::surface;
    return rule_set_of(std::move(id));
  };
  ExchangeScript(rules)
      .request(client(Form::sequence, kTransaction, {nth(0), nth(1)}))
      .sends(client(Form::sequence, kTransaction, {nth(0, 1), nth(1, 2)}))
      .reply(n(1) + write_errors({duplicate(1)}) + ok())
      .relays()
      .counts("assigned=2 surfaced=1")
      .play();
  // As a mongos answers: the command as a whole has failed.
  const auto reporting = [] {
    auto id = rule("shop.*", "_id");
    id.in_transaction = InTransaction::surface;
    id.report = true;
    return rule_set_of(std::move(id));
  };
  for (const auto& each : {ExchangeScript::Rules(rules), ExchangeScript::Rules(reporting)}) {
    ExchangeScript(each)
        .request(client(Form::array, kTransaction, {nth(0)}))
        .sends(client(Form::array, kTransaction, {nth(0, 1)}))
        .reply(failure(11000, "E11000") + doc_field("keyPattern", int_field("_id", 1)) + kTimes)
        .relays()
        .counts("assigned=1 surfaced=1")
        .play();
  }
}

/// One insert after the other, in transactions of one rule with two attempts, and of another rule.
class Row : public ::testing::Test {
 protected:
  ActionKind insert(const std::string& options, const std::string& reply) {
    EXPECT_EQ(world_.request(client(Form::sequence, options, {doc()})), ActionKind::send);
    return world_.reply_with(reply);
  }
  ActionKind abort() { return insert(kTransaction, n(0) + write_errors({duplicate(0)}) + ok()); }
  void abort_to_the_bound() {
    EXPECT_EQ(abort(), ActionKind::reply);
    EXPECT_EQ(abort(), ActionKind::reply);
    EXPECT_EQ(abort(), ActionKind::relay);
  }

  ExchangeWorld world_{rule_set_of(with({.attempts = 2}, rule("shop.*", "_id")),
                                   with({.attempts = 2}, rule("shop.*", "n")))};
};

TEST_F(Row, IsBounded) {
  abort_to_the_bound();
  EXPECT_EQ(abort(), ActionKind::relay);
  EXPECT_EQ(world_.counts(), "assigned=8 transient=2 surfaced=2");
}

TEST_F(Row, EndsWithASuccessInATransaction) {
  abort_to_the_bound();
  EXPECT_EQ(insert(kTransaction, n(1) + ok()), ActionKind::relay);
  abort_to_the_bound();
}

TEST_F(Row, EndsAfterTenSeconds) {
  abort_to_the_bound();
  world_.clock.advance(9'999ms);
  EXPECT_EQ(abort(), ActionKind::relay);
  world_.clock.advance(2ms);
  abort_to_the_bound();
}

TEST_F(Row, GoesOnDespiteAllElse) {
  abort_to_the_bound();
  EXPECT_EQ(insert("", n(1) + ok()), ActionKind::relay);
  EXPECT_EQ(insert(kTransaction, n(0) + write_errors({write_error(0, 121)}) + ok()),
            ActionKind::relay);
  EXPECT_EQ(insert(kTransaction, failure(251, "aborted")), ActionKind::relay);
  EXPECT_EQ(abort(), ActionKind::relay);
  // Each rule has its own.
  EXPECT_EQ(insert(kTransaction, n(0) + write_errors({duplicate(0, {"n"})}) + ok()),
            ActionKind::reply);
}

}  // namespace batch_test
}  // namespace idproxy::rewrite
