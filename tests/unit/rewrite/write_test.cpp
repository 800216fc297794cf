#include "idproxy/rewrite/write.hpp"

#include <gtest/gtest.h>

#include "support/messages.hpp"
#include "support/write_options.hpp"

namespace idproxy::rewrite {
namespace write_test {

using namespace test;

std::string options(const WriteOptions& options) {
  std::string text = options.ordered ? "ordered" : "unordered";
  if (options.in_transaction) text += " in_transaction";
  if (options.has_txn_number) text += " txn";
  if (!options.acknowledged) text += " w=0";
  if (options.max_time_ms) text += " time=" + std::to_string(*options.max_time_ms);
  if (options.stmt_id != 0) text += " from=" + std::to_string(options.stmt_id);
  for (const auto number : options.stmt_ids) text += ' ' + std::to_string(number);
  return text;
}

TEST(WriteOptions, AreReadAsMongodReadsThem) {
  const struct {
    const char* name;
    std::string fields;
    const char* options;
  } rows[] = {
      {"none", "", "ordered"},
      {"others", string_field("comment", "c") + int_field("n", 0), "ordered"},
      {"ordered: false", bool_field("ordered", false), "unordered"},
      {"ordered: true", bool_field("ordered", true), "ordered"},
      {"ordered: 0", int_field("ordered", 0), "unordered"},
      {"ordered: 0.0", double_field("ordered", 0), "unordered"},
      {"ordered: 5", long_field("ordered", 5), "ordered"},
      {"txnNumber", long_field("txnNumber", 0), "ordered txn"},
      {"autocommit: false", bool_field("autocommit", false), "ordered in_transaction"},
      {"maxTimeMS int", int_field("maxTimeMS", 5), "ordered time=5"},
      {"maxTimeMS long", long_field("maxTimeMS", 5'000'000'000), "ordered time=5000000000"},
      {"maxTimeMS double", double_field("maxTimeMS", 7), "ordered time=7"},
      {"maxTimeMS: 0 is no limit", int_field("maxTimeMS", 0), "ordered"},
      {"null is as good as absent",
       element(bson::Type::null, "ordered", "") + element(bson::Type::null, "autocommit", "") +
           element(bson::Type::null, "txnNumber", "") + element(bson::Type::null, "stmtId", ""),
       "ordered"},
      {"w: 0", doc_field("writeConcern", int_field("w", 0)), "ordered w=0"},
      {"w: 0.0", doc_field("writeConcern", double_field("w", 0)), "ordered w=0"},
      {"w: 1", doc_field("writeConcern", int_field("w", 1)), "ordered"},
      {"w: majority", doc_field("writeConcern", string_field("w", "majority")), "ordered"},
      {"no w", doc_field("writeConcern", bool_field("j", true)), "ordered"},
      {"stmtId", int_field("stmtId", -4), "ordered from=-4"},
      {"stmtIds", numbers_field("stmtIds", {3, -1, 2}), "ordered 3 -1 2"},
      {"stmtIds empty", numbers_field("stmtIds", {}), "ordered"},
  };
  for (const auto& row : rows) {
    const Exact exact(doc(row.fields));
    const auto read = options_in(exact.view());
    ASSERT_TRUE(read) << row.name;
    EXPECT_EQ(options(*read), row.options) << row.name;
  }
}

TEST(WriteOptions, FailIfRepeatedOrOfAFormThatMongodRefuses) {
  const std::pair<const char*, std::string> once[] = {
      {"ordered", bool_field("ordered", true)},    {"autocommit", bool_field("autocommit", false)},
      {"txnNumber", long_field("txnNumber", 1)},   {"maxTimeMS", int_field("maxTimeMS", 1)},
      {"maxTimeMS: 0", int_field("maxTimeMS", 0)}, {"stmtId", int_field("stmtId", 1)},
      {"stmtIds", numbers_field("stmtIds", {1})},
  };
  for (const auto& [name, field] : once) {
    EXPECT_TRUE(options_in(as_bytes(doc(field)))) << name;
    EXPECT_FALSE(options_in(as_bytes(doc(field + field)))) << name << " twice";
  }
  const std::pair<const char*, std::string> rows[] = {
      {"ordered is text", string_field("ordered", "false")},
      {"writeConcern is a number", int_field("writeConcern", 0)},
      {"ordered: 0.5", double_field("ordered", 0.5)},
      {"autocommit: true", bool_field("autocommit", true)},
      {"autocommit: 0", int_field("autocommit", 0)},
      {"maxTimeMS is a boolean", bool_field("maxTimeMS", true)},
      {"maxTimeMS is null", element(bson::Type::null, "maxTimeMS", "")},
      {"autocommit is text", string_field("autocommit", "false")},
      {"txnNumber is int32", int_field("txnNumber", 1)},
      {"txnNumber is a double", double_field("txnNumber", 1)},
      {"maxTimeMS negative", int_field("maxTimeMS", -1)},
      {"maxTimeMS: 1.5", double_field("maxTimeMS", 1.5)},
      {"maxTimeMS is text", string_field("maxTimeMS", "5")},
      {"stmtId is a long", long_field("stmtId", 1)},
      {"stmtIds of longs",
       element(bson::Type::array, "stmtIds", doc(int_field("0", 1) + long_field("1", 2)))},
      {"stmtIds is a number", int_field("stmtIds", 1)},
      {"stmtIds is a document", doc_field("stmtIds", int_field("0", 1))},
      {"stmtIds of bad BSON",
       element(bson::Type::array, "stmtIds", doc(element(static_cast<bson::Type>(0x42), "0", "")))},
      {"stmtId and stmtIds", int_field("stmtId", 1) + numbers_field("stmtIds", {2})},
      {"bad BSON behind them", element(static_cast<bson::Type>(0x42), "x", "")},
  };
  for (const auto& [name, fields] : rows) {
    const Exact exact(doc(fields));
    EXPECT_FALSE(options_in(exact.view())) << name;
  }
}

TEST(WriteOptions, NumberEachStatement) {
  WriteOptions by_position;
  EXPECT_TRUE(by_position.numbers(100'000));
  EXPECT_EQ(by_position.number_of(99'999), 99'999);
  WriteOptions from;
  from.stmt_id = 2'147'483'647 - 2;
  EXPECT_TRUE(from.numbers(3));
  EXPECT_FALSE(from.numbers(4));
  EXPECT_EQ(from.number_of(2), 2'147'483'647);
  from.stmt_id = -2'147'483'647 - 1;
  EXPECT_TRUE(from.numbers(100'000));
  EXPECT_EQ(from.number_of(1), -2'147'483'647);
  WriteOptions listed;
  listed.stmt_ids = {7, -1};
  EXPECT_TRUE(listed.numbers(2));
  EXPECT_FALSE(listed.numbers(1));
  EXPECT_FALSE(listed.numbers(3));
  EXPECT_EQ(listed.number_of(1), -1);
}

}  // namespace write_test
}  // namespace idproxy::rewrite
