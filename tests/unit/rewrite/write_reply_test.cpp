#include "idproxy/rewrite/reply_merge.hpp"

#include <gtest/gtest.h>

#include "support/replies.hpp"

namespace idproxy::rewrite {
namespace write_reply_test {

using namespace test;

TEST(WriteReply, ReadsWhatMongodSays) {
  const std::string bytes =
      doc(n(3) + element(bson::Type::object_id, "electionId", std::string(12, 'e')) +
          write_errors({duplicate(1)}) + numbers_field("retriedStmtIds", {0, 2}) + ok());
  const Exact exact(bytes);
  const auto reply = WriteReply::read(exact.view(), 3);
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->ok);
  EXPECT_EQ(reply->n, 3);
  EXPECT_EQ(reply->code, 0);
  EXPECT_EQ(reply->errors.size(), 1U);
  EXPECT_EQ(reply->retried, 2U);
}

TEST(WriteReply, AcceptsNumbersOfAnyType) {
  const struct {
    const char* name;
    std::string fields;
    bool ok;
    std::optional<std::int64_t> n;
    std::int64_t code;
  } rows[] = {
      {"doubles", ok(1) + double_field("n", 2), true, 2, 0},
      {"longs", long_field("ok", 1) + long_field("n", 2), true, 2, 0},
      {"ints", int_field("ok", 1) + int_field("n", 2), true, 2, 0},
      {"booleans", bool_field("ok", true), true, {}, 0},
      {"an error", failure(11000, "E11000"), false, {}, 11000},
      {"a code in a long", ok(0) + long_field("code", 13), false, {}, 13},
      {"no code", ok(0), false, {}, 0},
      {"an error, with others of no statement",
       failure(13, "") + write_errors({duplicate(3)}),
       false,
       {},
       13},
  };
  for (const auto& row : rows) {
    const auto reply = WriteReply::read(as_bytes(doc(row.fields)), 3);
    ASSERT_TRUE(reply) << row.name;
    EXPECT_EQ(reply->ok, row.ok) << row.name;
    EXPECT_EQ(reply->n, row.n) << row.name;
    EXPECT_EQ(reply->code, row.code) << row.name;
  }
}

TEST(WriteReply, FailsIfAFieldIsMissingRepeatedOrOfAnotherType) {
  const struct {
    const char* name;
    std::string fields;
  } rows[] = {
      {"empty", ""},
      {"no ok", n(1)},
      {"ok: 2", ok(2)},
      {"ok: -1", ok(-1)},
      {"ok: 0.5", ok(0.5)},
      {"ok is text", string_field("ok", "1")},
      {"ok twice", ok() + ok()},
      {"n is text", string_field("n", "1") + ok()},
      {"n: 1.5", double_field("n", 1.5) + ok()},
      {"n twice", n(1) + n(1) + ok()},
      {"code is text", ok(0) + string_field("code", "1")},
      {"code twice", ok(0) + int_field("code", 1) + int_field("code", 1)},
      {"writeErrors is a document", ok() + doc_field("writeErrors", "")},
      {"writeErrors twice", ok() + write_errors({}) + write_errors({})},
      {"retriedStmtIds is a number", ok() + int_field("retriedStmtIds", 1)},
      {"retriedStmtIds twice",
       ok() + numbers_field("retriedStmtIds", {}) + numbers_field("retriedStmtIds", {})},
      {"retriedStmtIds of longs",
       ok() + element(bson::Type::array, "retriedStmtIds", doc(long_field("0", 1)))},
      {"errorLabels of numbers", ok() + numbers_field("errorLabels", {1})},
      {"errorLabels is text", ok() + string_field("errorLabels", "A")},
      {"errorLabels twice", ok() + texts_field("errorLabels", {}) + texts_field("errorLabels", {})},
      {"more errorLabels than exist",
       ok() + texts_field("errorLabels", std::vector<std::string>(17, "A"))},
      {"an error of no statement", ok() + write_errors({duplicate(3)})},
      {"nModified is text", ok() + string_field("nModified", "1")},
      {"nModified twice", ok() + int_field("nModified", 1) + int_field("nModified", 1)},
      {"upserted is a document", ok() + doc_field("upserted", "")},
      {"upserted twice", ok() + array_field("upserted", {}) + array_field("upserted", {})},
      {"an upsert of no statement",
       ok() + array_field("upserted", {doc(int_field("index", 3) + int_field("_id", 1))})},
      {"an upsert without _id", ok() + array_field("upserted", {doc(int_field("index", 0))})},
      {"upserts that do not ascend",
       ok() + array_field("upserted", {doc(int_field("index", 1) + int_field("_id", 1)),
                                       doc(int_field("index", 1) + int_field("_id", 2))})},
      {"bad BSON at the end", ok() + element(static_cast<bson::Type>(0x42), "x", "")},
  };
  for (const auto& row : rows) {
    const Exact exact(doc(row.fields));
    EXPECT_FALSE(WriteReply::read(exact.view(), 3)) << row.name;
  }
}

std::optional<std::vector<WriteError>> errors_of(const std::string& elements,
                                                 std::size_t documents) {
  return read_write_errors(as_bytes(doc(elements)), documents);
}

TEST(WriteErrors, AreReadInOrder) {
  const std::string first = write_error(0, 121);
  const std::string last = write_error(4, 11000, duplicate_fields({"_id"}));
  const std::string array = doc(element(bson::Type::document, "0", first) +
                                element(bson::Type::document, "any key", last));
  const Exact exact(array);
  const auto errors = read_write_errors(exact.view(), 5);
  ASSERT_TRUE(errors);
  ASSERT_EQ(errors->size(), 2U);
  EXPECT_EQ(errors->at(0).index, 0);
  EXPECT_EQ(errors->at(0).code, 121);
  EXPECT_EQ(text_of(errors->at(0).document), first);
  EXPECT_EQ(errors->at(1).index, 4);
  EXPECT_EQ(errors->at(1).code, 11000);
  EXPECT_EQ(text_of(errors->at(1).document), last);
  EXPECT_EQ(read_write_errors({}, 5)->size(), 0U);  // the field is absent
  EXPECT_EQ(errors_of("", 5)->size(), 0U);
}

TEST(WriteErrors, FailIfOneIsNoErrorOfADocumentThatWasSent) {
  const auto entry = [](const std::string& document) {
    return element(bson::Type::document, "0", document);
  };
  const struct {
    const char* name;
    std::string elements;
  } rows[] = {
      {"a number", int_field("0", 1)},
      {"an array", element(bson::Type::array, "0", write_error(0, 1))},
      {"empty", entry(doc())},
      {"no index", entry(doc(int_field("code", 1)))},
      {"no code", entry(doc(int_field("index", 1)))},
      {"index is a long", entry(doc(long_field("index", 1) + int_field("code", 1)))},
      {"index is a double", entry(doc(double_field("index", 1) + int_field("code", 1)))},
      {"code is text", entry(doc(int_field("index", 1) + string_field("code", "1")))},
      {"code: 1.5", entry(doc(int_field("index", 1) + double_field("code", 1.5)))},
      {"negative", entry(write_error(-1, 1))},
      {"behind the last document", entry(write_error(3, 1))},
      {"far behind", entry(write_error(2'147'483'647, 1))},
      {"twice the same", entry(write_error(1, 1)) + entry(write_error(1, 1))},
      {"descending", entry(write_error(2, 1)) + entry(write_error(0, 1))},
      {"bad BSON behind",
       entry(write_error(1, 1)) + element(static_cast<bson::Type>(0x42), "x", "")},
  };
  for (const auto& row : rows) EXPECT_FALSE(errors_of(row.elements, 3)) << row.name;
  EXPECT_FALSE(errors_of(entry(write_error(0, 1)), 0));
}

}  // namespace write_reply_test
}  // namespace idproxy::rewrite
