#include "rewrite/earlier_attempts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/replies.hpp"
#include "support/rule_set.hpp"

namespace idproxy::rewrite {
namespace executed_look_test {

using namespace test;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

std::optional<std::vector<std::int32_t>> told(const std::string& fields) {
  const std::vector<std::int32_t> statements{2, 5, 7};
  const std::string message = op_msg(body(doc(fields)));
  return ExecutedQuestion(statements).read(*wire::OpMsgView::parse(as_bytes(message)));
}

std::string upserted(const std::vector<std::int32_t>& indexes) {
  std::vector<std::string> entries;
  for (const std::int32_t index : indexes) {
    entries.push_back(doc(int_field("index", index) + int_field("_id", 1)));
  }
  return array_field("upserted", entries);
}

const std::string kOk = int_field("ok", 1);

TEST(ExecutedQuestion, TellsWhichStatementsWereExecuted) {
  EXPECT_THAT(told(int_field("n", 0) + kOk), Optional(IsEmpty()));
  EXPECT_THAT(told(int_field("n", 1) + upserted({1}) + kOk), Optional(ElementsAre(5)));
  EXPECT_THAT(told(int_field("n", 3) + upserted({2, 0, 1}) + kOk), Optional(ElementsAre(2, 5, 7)));
}

TEST(ExecutedQuestion, DoesNotGuess) {
  EXPECT_EQ(told(int_field("n", 0) + int_field("ok", 0)), std::nullopt);
  EXPECT_EQ(told(kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 1) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 2) + upserted({1}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 2) + upserted({1, 1}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 1) + upserted({3}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 1) + upserted({-1}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 0) + array_field("writeErrors", {}) + kOk), std::nullopt);
}

TEST(ExecutedQuestion, AsksByTheNumbersOfTheInsertsStatements) {
  const std::string insert =
      op_msg(body(doc(string_field("insert", "orders") + int_field("txnNumber", 9) +
                      int_field("comment", 1) + string_field("$db", "shop"))));
  const auto view = wire::OpMsgView::parse(as_bytes(insert));
  WriteOptions options;
  options.has_txn_number = true;
  options.stmt_id = 40;
  const std::vector<std::int32_t> statements{0, 3};
  wire::PatchedMessage out;
  ExecutedQuestion(statements).emit({&*view, "shop.orders", 77, std::nullopt}, options, out);
  Buffer sent;
  out.copy({}, 0, sent);
  const auto asked = wire::OpMsgView::parse(sent.view());
  ASSERT_TRUE(asked);
  const std::string statement = doc_field("q", doc_field("_id", array_field("$in", {}))) +
                                doc_field("u", doc_field("$set", int_field("_", 0)));
  EXPECT_EQ(as_text(asked->body()),
            doc(string_field("update", "orders") +
                array_field("updates", {doc(statement), doc(statement)}) +
                numbers_field("stmtIds", {40, 43}) + bool_field("ordered", false) +
                doc_field("writeConcern", int_field("w", 1)) + int_field("txnNumber", 9) +
                string_field("$db", "shop")));
}

}  // namespace executed_look_test

namespace repeated_insert_test {

using namespace test;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = RepeatedInsert::Verdict::Kind;
using Statements = std::vector<std::int32_t>;

constexpr std::int32_t kInvalid = 2;  // a document that the server refuses as such

/// The server's reply to `sent` documents, whose errors have these codes by index.
class Answer {
 public:
  Answer(std::size_t sent, std::int32_t stored, const std::map<std::int32_t, std::int32_t>& codes)
      : bytes_(bytes_of(stored, codes)),
        message(*wire::OpMsgView::parse(as_bytes(bytes_))),
        reply(*WriteReply::read(message.body(), sent)) {}

 private:
  static std::string bytes_of(std::int32_t stored,
                              const std::map<std::int32_t, std::int32_t>& codes) {
    std::vector<std::string> errors;
    for (const auto& [index, code] : codes) errors.push_back(write_error(index, code));
    return reply_message(n(stored) + (errors.empty() ? "" : write_errors(errors)) + ok());
  }
  std::string bytes_;

 public:
  wire::OpMsgView message;
  WriteReply reply;
};

TEST(RepeatedInsert, NumbersStatementsWithoutTheInvalidOnesInFrontOfThem) {
  WriteOptions options;
  options.stmt_id = 40;
  const auto shifted = [&](const std::map<std::int32_t, std::int32_t>& codes) {
    return RepeatedInsert::shifted(Answer(4, 0, codes).reply, options, 4);
  };
  EXPECT_THAT(shifted({}), ElementsAre(40, 41, 42, 43));
  EXPECT_THAT(shifted({{0, kInvalid}}), ElementsAre(40, 40, 41, 42));
  EXPECT_THAT(shifted({{1, kInvalid}, {2, kInvalid}}), ElementsAre(40, 41, 41, 41));
  // A duplicate and a document that fails the collection's validation have numbers.
  EXPECT_THAT(shifted({{0, 11000}, {1, 121}, {2, kInvalid}}), ElementsAre(40, 41, 42, 42));
}

TEST(RepeatedInsert, DoubtsRepliesThatAreShortOrHaveErrors) {
  constexpr bool kLoses = true;
  const auto doubts = [](const Answer& answer, bool loses) {
    return RepeatedInsert().may_be_mixed_up(answer.reply, 3, loses);
  };
  EXPECT_FALSE(doubts(Answer(3, 3, {}), kLoses));
  EXPECT_TRUE(doubts(Answer(3, 1, {}), kLoses));
  EXPECT_TRUE(doubts(Answer(3, 1, {}), !kLoses));
  EXPECT_TRUE(doubts(Answer(3, 2, {{1, 11000}}), kLoses));
  EXPECT_TRUE(doubts(Answer(3, 2, {{1, 121}}), kLoses));
  EXPECT_FALSE(doubts(Answer(3, 2, {{1, 11000}}), !kLoses));
  EXPECT_FALSE(doubts(Answer(3, 2, {{1, kInvalid}}), kLoses));
  EXPECT_FALSE(RepeatedInsert().may_be_mixed_up(Answer(1, 0, {}).reply, 1, kLoses));
}

TEST(RepeatedInsert, DoubtsEachPartOnce) {
  RepeatedInsert insert;
  const Answer answer(3, 1, {});
  EXPECT_FALSE(insert.was_in_doubt() || insert.has_lost());
  EXPECT_THAT(insert.doubt(answer.message, answer.reply, Statements{2, 5, 7}),
              ElementsAre(2, 5, 7));
  EXPECT_EQ(as_text(insert.reply()), as_text(answer.message.message()));
  EXPECT_TRUE(insert.was_in_doubt() && insert.has_lost());
  EXPECT_FALSE(insert.may_be_mixed_up(answer.reply, 3, true));
  insert.begin_part();
  EXPECT_TRUE(insert.may_be_mixed_up(answer.reply, 3, true));
  EXPECT_TRUE(insert.has_lost());
}

TEST(RepeatedInsert, AsksOnlyAboutStatementsThatHaveNumbers) {
  RepeatedInsert insert;
  const Answer answer(3, 1, {{0, kInvalid}, {2, 11000}});
  EXPECT_THAT(insert.doubt(answer.message, answer.reply, Statements{2, 5, 7}), ElementsAre(5, 7));
  EXPECT_FALSE(insert.has_lost());
}

TEST(RepeatedInsert, IsJudgedByWhatWasExecuted) {
  const Statements out{2, 5, 7};
  const struct {
    const char* name;
    Answer answer;
    std::optional<Statements> executed;
    Kind kind;
    Statements again;
    std::int64_t stored;
    bool alone;
  } rows[] = {
      {"errors are of what is missing",
       {3, 2, {{1, 11000}}},
       {{2, 7}},
       Kind::believe,
       {},
       0,
       false},
      {"errors of another one", {3, 2, {{0, 11000}}}, {{2, 7}}, Kind::send_again, {5}, 2, false},
      {"some are left out", {3, 1, {}}, {{7}}, Kind::send_again, {2, 5}, 1, false},
      {"nothing is there", {3, 1, {}}, {Statements{}}, Kind::send_again, {2, 5, 7}, 0, false},
      {"all are there", {3, 1, {}}, {{2, 5, 7}}, Kind::believe, {}, 0, false},
      {"all are there, and one failed",
       {3, 2, {{1, 11000}}},
       {{2, 5, 7}},
       Kind::send_again,
       {7},
       2,
       false},
      {"it does not tell", {3, 1, {}}, {}, Kind::send_again, {2, 5, 7}, 0, true},
      {"left out beside an invalid one",
       {3, 1, {{0, kInvalid}}},
       {{7}},
       Kind::give_up,
       {},
       0,
       false},
      {"an invalid one, and it does not tell",
       {3, 1, {{0, kInvalid}}},
       {},
       Kind::give_up,
       {},
       0,
       false},
      {"right beside an invalid one",
       {3, 1, {{0, kInvalid}, {2, 11000}}},
       {{5}},
       Kind::believe,
       {},
       0,
       false},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    RepeatedInsert insert;
    static_cast<void>(insert.doubt(row.answer.message, row.answer.reply, out));
    const auto verdict = insert.judge(row.executed, row.answer.reply, out);
    EXPECT_EQ(verdict.kind, row.kind);
    if (row.kind == Kind::send_again) {
      EXPECT_EQ(verdict.statements, row.again);
      EXPECT_EQ(verdict.stored, row.stored);
    }
    EXPECT_EQ(insert.is_alone(), row.alone);
    insert.begin_part();
    EXPECT_FALSE(insert.is_alone());
  }
}

}  // namespace repeated_insert_test

namespace stored_look_test {

using namespace test;

ids::TypedValue int_id(std::int32_t id) {
  return {bson::Type::int32, i32(id)};
}

std::string reply_with(const std::vector<std::string>& documents) {
  return op_msg(body(
      doc(doc_field("cursor", array_field("firstBatch", documents) + long_field("id", 0)) + ok())));
}

bool read(StoredQuestion& look, const std::string& reply) {
  return look.read(*wire::OpMsgView::parse(as_bytes(reply)));
}

/// The value that statement has, as bytes; "none".
std::string value_in(const StoredQuestion& look, std::int32_t statement, std::string_view field) {
  const auto value = look.value(statement, field);
  return value ? std::string(as_text(value->value)) : "none";
}

TEST(StoredQuestion, FindsValuesByTheirIds) {
  StoredQuestion look({int_id(1), int_id(2), ids::TypedValue{}, int_id(3)});
  EXPECT_EQ(value_in(look, 0, "number"), "none");
  EXPECT_TRUE(read(look, reply_with({doc(int_field("_id", 3) + int_field("number", 7)),
                                     doc(int_field("_id", 1) + doc_field("a", int_field("b", 8))),
                                     doc(int_field("number", 9))})));
  EXPECT_EQ(value_in(look, 3, "number"), i32(7));
  EXPECT_EQ(value_in(look, 0, "a.b"), i32(8));
  EXPECT_EQ(value_in(look, 0, "_id"), i32(1));
  EXPECT_EQ(value_in(look, 0, "number"), "none");
  EXPECT_EQ(value_in(look, 1, "_id"), "none");
  EXPECT_EQ(value_in(look, 2, "number"), "none");
}

/// 1 and 1.0 are the same `_id` for the server, but the client's document has one of them.
TEST(StoredQuestion, KnowsIdsByTypeAndBytes) {
  StoredQuestion look({{bson::Type::string, i32(2) + "a" + std::string(1, '\0')}, int_id(1)});
  EXPECT_TRUE(read(look, reply_with({doc(string_field("_id", "b") + int_field("number", 1)),
                                     doc(long_field("_id", 1) + int_field("number", 2))})));
  EXPECT_EQ(value_in(look, 0, "number"), "none");
  EXPECT_EQ(value_in(look, 1, "number"), "none");
  EXPECT_TRUE(read(look, reply_with({doc(string_field("_id", "a") + int_field("number", 3))})));
  EXPECT_EQ(value_in(look, 0, "number"), i32(3));
}

TEST(StoredQuestion, UnderstandsAnswersOfAFindOnly) {
  StoredQuestion look({int_id(1)});
  const auto reads = [&](const std::string& fields) {
    return read(look, op_msg(body(doc(fields))));
  };
  EXPECT_TRUE(read(look, reply_with({})));
  EXPECT_FALSE(reads(failure(13, "not authorized")));
  EXPECT_FALSE(reads(int_field("cursor", 1) + ok()));
  EXPECT_FALSE(reads(doc_field("cursor", int_field("firstBatch", 1)) + ok()));
  EXPECT_FALSE(reads(doc_field("cursor", numbers_field("firstBatch", {1})) + ok()));
  EXPECT_EQ(value_in(look, 0, "_id"), "none");
}

TEST(StoredQuestion, AsksForTheFieldsOfItsRulesInNoSession) {
  const auto rules = rule_set_of(rule("shop.*", "number"), rule("shop.*", "_id"));
  const std::string insert = op_msg(body(
      doc(string_field("insert", "orders") + doc_field("lsid", "") + long_field("txnNumber", 9) +
          string_field("apiVersion", "1") + string_field("$db", "shop"))));
  const auto view = wire::OpMsgView::parse(as_bytes(insert));
  for (const bool limited : {false, true}) {
    wire::PatchedMessage out;
    const std::optional<std::int64_t> limit =
        limited ? std::optional<std::int64_t>(250) : std::nullopt;
    StoredQuestion({int_id(1), ids::TypedValue{}, int_id(2)})
        .emit({&*view, "shop.orders", 77, limit}, rules->plan("shop", "orders"), out);
    Buffer sent;
    out.copy({}, 0, sent);
    const auto asked = wire::OpMsgView::parse(sent.view());
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->header().request_id, 77);
    EXPECT_EQ(as_text(asked->body()),
              doc(string_field("find", "orders") +
                  doc_field("filter", doc_field("_id", numbers_field("$in", {1, 2}))) +
                  doc_field("projection", int_field("_id", 1) + int_field("number", 1)) +
                  int_field("batchSize", 3) + bool_field("singleBatch", true) +
                  doc_field("readConcern", string_field("level", "local")) +
                  (limited ? long_field("maxTimeMS", 250) : "") + string_field("apiVersion", "1") +
                  string_field("$db", "shop")));
  }
}

}  // namespace stored_look_test
}  // namespace idproxy::rewrite
