#include "app/jobs/value_text.hpp"

#include <gtest/gtest.h>

#include "idproxy/ids/values.hpp"

namespace idproxy::app::jobs {
namespace value_text_test {

std::string text_of(bson::Type type, std::string_view bytes) {
  return value_text(type, as_bytes(bytes));
}

TEST(ValueText, IsWhatMongoshWrites) {
  using bson::Type;
  EXPECT_EQ(text_of(Type::int32, {"\xfe\xff\xff\xff", 4}), "-2");
  EXPECT_EQ(text_of(Type::int64, {"\xe9\x03\0\0\0\0\0\0", 8}), "1001");
  EXPECT_EQ(text_of(Type::object_id, "\x56\xe1\xfc\x72\xe0\xc9\x17\xe9\xc4\x71\x41\x61"),
            "ObjectId(\"56e1fc72e0c917e9c4714161\")");
  const std::string uuid("\x01\x7f\x22\xe2\x79\xb0\x7c\xc3\x98\xc4\xdc\x0c\x0c\x07\x39\x8f", 16);
  EXPECT_EQ(text_of(Type::binary, std::string("\x10\0\0\0\x04", 5) + uuid),
            "UUID(\"017f22e2-79b0-7cc3-98c4-dc0c0c07398f\")");
  EXPECT_EQ(text_of(Type::binary, std::string("\x10\0\0\0\x03", 5) + uuid),
            "HexData(3, \"017f22e279b07cc398c4dc0c0c07398f\")");
}

TEST(ValueText, QuotesStrings) {
  ids::Values values;
  values.add_string("INV-\"1\\2");
  EXPECT_EQ(value_text(values.type(), values[0]), "\"INV-\\\"1\\\\2\"");
}

}  // namespace value_text_test
}  // namespace idproxy::app::jobs
