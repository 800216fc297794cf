#include "rewrite/earlier_attempts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/messages.hpp"

namespace idproxy::rewrite {
namespace executed_look_test {

using namespace test;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

std::optional<std::vector<std::int32_t>> told(const std::string& fields) {
  const std::vector<std::int32_t> statements{2, 5, 7};
  const std::string message = op_msg(body(doc(fields)));
  return ExecutedLook(statements).read(*wire::OpMsgView::parse(as_bytes(message)));
}

std::string upserted(const std::vector<std::int32_t>& indexes) {
  std::vector<std::string> entries;
  for (const std::int32_t index : indexes) {
    entries.push_back(doc(int_field("index", index) + int_field("_id", 1)));
  }
  return array_field("upserted", entries);
}

const std::string kOk = int_field("ok", 1);

TEST(ExecutedLook, TellsWhichStatementsWereExecuted) {
  EXPECT_THAT(told(int_field("n", 0) + kOk), Optional(IsEmpty()));
  EXPECT_THAT(told(int_field("n", 1) + upserted({1}) + kOk), Optional(ElementsAre(5)));
  EXPECT_THAT(told(int_field("n", 3) + upserted({2, 0, 1}) + kOk), Optional(ElementsAre(2, 5, 7)));
}

TEST(ExecutedLook, DoesNotGuess) {
  EXPECT_EQ(told(int_field("n", 0) + int_field("ok", 0)), std::nullopt);
  EXPECT_EQ(told(kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 1) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 2) + upserted({1}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 2) + upserted({1, 1}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 1) + upserted({3}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 1) + upserted({-1}) + kOk), std::nullopt);
  EXPECT_EQ(told(int_field("n", 0) + array_field("writeErrors", {}) + kOk), std::nullopt);
}

TEST(ExecutedLook, AsksByTheNumbersOfTheInsertsStatements) {
  const std::string insert =
      op_msg(body(doc(string_field("insert", "orders") + int_field("txnNumber", 9) +
                      int_field("comment", 1) + string_field("$db", "shop"))));
  const auto view = wire::OpMsgView::parse(as_bytes(insert));
  WriteOptions options;
  options.has_txn_number = true;
  options.stmt_id = 40;
  const std::vector<std::int32_t> statements{0, 3};
  wire::PatchedMessage out;
  ExecutedLook(statements).emit({&*view, &options, "shop.orders", 77, std::nullopt}, out);
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
}  // namespace idproxy::rewrite
