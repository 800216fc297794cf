#include "idproxy/rewrite/statements.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "support/upserts.hpp"

namespace idproxy::rewrite {
namespace batch_command_test {

using namespace test;

TEST(WriteCommand, FindsTheDocumentsInEitherForm) {
  const std::string array = insert_array({doc(int_field("x", 1)), doc()});
  const std::string sequence_first =
      op_msg(sequence("documents", {doc(int_field("x", 1)), doc()}) + body(doc(insert_fields())));
  for (const std::string& bytes :
       {array, sequence_first, insert_sequence({doc(int_field("x", 1)), doc()})}) {
    const Exact exact(bytes);
    const auto view = wire::OpMsgView::parse(exact.view());
    const auto command = WriteCommand::read(*view);
    ASSERT_TRUE(command);
    EXPECT_EQ(command->collection(), "orders");
    EXPECT_EQ(command->db(), "shop");
    EXPECT_EQ(command->in_array(), bytes == array);
    Statements documents(*command);
    EXPECT_EQ(text_of(documents.next().value()), doc(int_field("x", 1)));
    EXPECT_EQ(text_of(documents.next().value()), doc());
    EXPECT_FALSE(documents.next());
    EXPECT_FALSE(documents.malformed());
    EXPECT_TRUE(documents.plain_keys());
  }
}

TEST(WriteCommand, FindsTheStatementsOfUpdates) {
  for (const std::string& bytes :
       {update_array("", {upsert(1), upsert(2)}), update_sequence("", {upsert(1), upsert(2)})}) {
    const Exact exact(bytes);
    const auto view = wire::OpMsgView::parse(exact.view());
    const auto command = WriteCommand::read(*view);
    ASSERT_TRUE(command);
    EXPECT_EQ(command->kind, WriteKind::update);
    EXPECT_EQ(command->collection(), "orders");
    Statements statements(*command);
    EXPECT_EQ(text_of(statements.next().value()), upsert(1));
    EXPECT_EQ(text_of(statements.next().value()), upsert(2));
    EXPECT_FALSE(statements.next() || statements.malformed());
  }
}

TEST(WriteCommand, TakesAFindAndModifyForItsOnlyStatement) {
  const Exact exact(find_and_modify(""));
  const auto view = wire::OpMsgView::parse(exact.view());
  const auto command = WriteCommand::read(*view);
  ASSERT_TRUE(command);
  EXPECT_EQ(command->kind, WriteKind::find_and_modify);
  EXPECT_EQ(command->collection(), "orders");
  EXPECT_EQ(command->db(), "shop");
  Statements statements(*command);
  EXPECT_EQ(text_of(statements.next().value()), text_of(view->body()));
  EXPECT_FALSE(statements.next() || statements.malformed());
}

/// Where in `whole` all that it refers to is.
std::vector<std::pair<std::ptrdiff_t, std::size_t>> places_of(const WriteCommand& command,
                                                              Bytes whole) {
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> places;
  for (const Bytes each :
       {command.statements(), command.array_element(), command.sequence(), command.stmt_ids(),
        command.ns_info(), as_bytes(command.collection()), as_bytes(command.db())}) {
    places.emplace_back(each.data() - whole.data(), each.size());
  }
  return places;
}

TEST(WriteCommand, IsReadAloneWhateverWasReadBefore) {
  const std::string usual =
      doc(insert_fields() + bool_field("ordered", true) + int_field("maxTimeMS", 1));
  const std::vector<std::string> others = {
      doc(insert_fields() + int_field("ordered", 1) + int_field("maxTimeMS", 1)),
      doc(insert_fields() + bool_field("ordered", false) + int_field("maxTimeMs", 1)),
      doc(insert_fields() + bool_field("ordered", true) + int_field("ordered", 1)),
      doc(insert_fields() + bool_field("orderedX", true) + int_field("maxTimeMS", 1)),
      doc(insert_fields() + string_field("$db", "other") + bool_field("ordered", true)),
      doc(insert_fields()),
      usual};
  WriteFields known;
  for (const std::string& other : others) {
    for (const std::string& fields : {usual, usual, usual, other, usual}) {
      const Exact exact(op_msg(body(fields) + sequence("documents", {doc()})));
      const auto view = wire::OpMsgView::parse(exact.view());
      const auto alone = WriteCommand::read(*view);
      WriteCommand after;
      ASSERT_EQ(WriteCommand::read(*view, known, after), alone.has_value());
      if (!alone) continue;
      EXPECT_EQ(places_of(after, exact.view()), places_of(*alone, exact.view()));
      ASSERT_EQ(after.options.has_value(), alone->options.has_value());
      if (!alone->options) continue;
      EXPECT_EQ(after.options->ordered, alone->options->ordered);
      EXPECT_EQ(after.options->max_time_ms, alone->options->max_time_ms);
    }
  }
}

TEST(WriteCommand, RefersToACopyOfItsMessage) {
  const std::string numbered =
      op_msg(body(doc(insert_fields() + numbers_field("stmtIds", {5, 6}))) +
             sequence("documents", {doc(), doc()}));
  const std::string empty = op_msg(body(doc(insert_fields())) + sequence("documents", {}));
  const std::string ns_info = doc(string_field("ns", "shop.orders"));
  const std::string bulk = int_field("bulkWrite", 1) + string_field("$db", "admin");
  const std::string operation = doc(int_field("insert", 0));
  for (const std::string& bytes :
       {numbered, empty, insert_array({doc(int_field("x", 1)), doc()}),
        update_array("", {upsert(1)}), update_sequence("", {upsert(1)}), find_and_modify(""),
        op_msg(body(doc(bulk)) + sequence("ops", {operation}) + sequence("nsInfo", {ns_info})),
        op_msg(body(
            doc(bulk + array_field("ops", {operation}) + array_field("nsInfo", {ns_info}))))}) {
    auto original = std::make_optional<Exact>(bytes);
    auto view = *wire::OpMsgView::parse(original->view());
    auto command = *WriteCommand::read(view);
    const auto places = places_of(command, original->view());
    const auto body_at = view.body().data() - original->view().data();
    const Exact copy(bytes);
    command.refer_to(copy.view());
    view = view.in(copy.view());
    original.reset();
    EXPECT_EQ(places_of(command, copy.view()), places);
    EXPECT_EQ(view.body().data() - copy.view().data(), body_at);
    EXPECT_EQ(text_of(view.message()), bytes);
    Statements walk(command);
    while (walk.next()) continue;
    EXPECT_FALSE(walk.malformed());
  }
}

TEST(WriteCommand, IsNotReadIfMongodWillRefuseIt) {
  const std::string name = string_field("update", "orders");
  const std::string db = string_field("$db", "shop");
  const std::string updates = array_field("updates", {upsert(1)});
  const std::string numbers = element(bson::Type::array, "stmtIds", doc(int_field("0", 1)));
  const std::string bodies[] = {
      doc(name + name + db + updates),
      doc(name + db + updates + numbers + numbers),
      doc(name + db + db + updates),
      doc(name + db + updates + updates),
      doc(name + updates),
      doc(name + db),
      doc(name + db + array_field("documents", {upsert(1)})),
      doc(int_field("update", 1) + db + updates),
      doc(string_field("findAndModify", "a") + string_field("findandmodify", "b") + db),
      doc(string_field("delete", "orders") + db + updates),
      doc(""),
  };
  for (const std::string& each : bodies) {
    const std::string bytes = op_msg(body(each));
    EXPECT_FALSE(WriteCommand::read(*wire::OpMsgView::parse(as_bytes(bytes))));
  }
  for (const std::string& section :
       {sequence("updates", {upsert(1)}), sequence("documents", {upsert(1)})}) {
    const std::string both = op_msg(body(doc(name + db + updates)) + section);
    EXPECT_FALSE(WriteCommand::read(*wire::OpMsgView::parse(as_bytes(both))));
    const std::string modify = op_msg(body(doc(string_field("findAndModify", "a") + db)) + section);
    EXPECT_FALSE(WriteCommand::read(*wire::OpMsgView::parse(as_bytes(modify))));
  }
}

TEST(WriteCommand, SeesEqualStatementNumbers) {
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
    const auto command = WriteCommand::read(*view);
    ASSERT_TRUE(command) << row.name;
    EXPECT_EQ(command->repeats_stmt_id(), row.repeats) << row.name;
  }
}

}  // namespace batch_command_test
}  // namespace idproxy::rewrite
