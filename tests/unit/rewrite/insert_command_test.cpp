#include "idproxy/rewrite/insert_command.hpp"

#include <gtest/gtest.h>

#include "support/messages.hpp"

namespace idproxy::rewrite {
namespace {

using namespace test;

TEST(InsertCommand, FindsTheDocumentsInEitherForm) {
  const std::string array = insert_array({doc(int_field("x", 1)), doc()});
  const std::string sequence_first =
      op_msg(sequence("documents", {doc(int_field("x", 1)), doc()}) + body(doc(insert_fields())));
  for (const std::string& bytes :
       {array, sequence_first, insert_sequence({doc(int_field("x", 1)), doc()})}) {
    const Exact exact(bytes);
    const auto view = wire::OpMsgView::parse(exact.view());
    const auto command = InsertCommand::read(*view);
    ASSERT_TRUE(command);
    EXPECT_EQ(command->collection, "orders");
    EXPECT_EQ(command->db, "shop");
    EXPECT_EQ(command->in_body(), bytes == array);
    InsertDocuments documents(*command);
    EXPECT_EQ(text_of(documents.next().value()), doc(int_field("x", 1)));
    EXPECT_EQ(text_of(documents.next().value()), doc());
    EXPECT_FALSE(documents.next());
    EXPECT_FALSE(documents.malformed());
    EXPECT_TRUE(documents.plain_keys());
  }
}

TEST(InsertCommand, SeesEqualStatementNumbers) {
  const struct {
    const char* name;
    std::string stmt_ids;
    bool repeats;
  } rows[] = {
      {"none", "", false},
      {"empty", numbers_field("stmtIds", {}), false},
      {"one", numbers_field("stmtIds", {5}), false},
      {"distinct, in any order", numbers_field("stmtIds", {5, -5, 0}), false},
      {"equal neighbours", numbers_field("stmtIds", {1, 1}), true},
      {"equal far apart", numbers_field("stmtIds", {1, 2, 3, -9, 1}), true},
      {"equal, among others of another type",
       element(bson::Type::array, "stmtIds",
               doc(int_field("0", 1) + string_field("1", "") + int_field("2", 1))),
       true},
  };
  for (const auto& row : rows) {
    const std::string bytes =
        op_msg(body(doc(insert_fields() + row.stmt_ids)) + sequence("documents", {doc()}));
    const auto view = wire::OpMsgView::parse(as_bytes(bytes));
    const auto command = InsertCommand::read(*view);
    ASSERT_TRUE(command) << row.name;
    EXPECT_EQ(command->repeats_stmt_id(), row.repeats) << row.name;
  }
}

}  // namespace
}  // namespace idproxy::rewrite
