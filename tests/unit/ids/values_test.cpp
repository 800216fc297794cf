#include "idproxy/ids/values.hpp"

#include <gtest/gtest.h>

#include "support/hex.hpp"

namespace idproxy::ids {
namespace values_test {

using test::to_hex;

TEST(Values, SucceedsWithValuesOfDifferentSizes) {
  Values values;
  values.add_string("ab");
  values.add_string("");
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values.type(), bson::Type::string);
  EXPECT_EQ(to_hex(values[0]), "03000000616200");
  EXPECT_EQ(to_hex(values[1]), "0100000000");
}

TEST(Values, SucceedsWithOneOfAnotherSizeAmongEqualOnes) {
  Values values;
  for (const char* text : {"ab", "cd", "", "ef", "gh"}) values.add_string(text);
  ASSERT_EQ(values.size(), 5U);
  EXPECT_EQ(to_hex(values[0]), "03000000616200");
  EXPECT_EQ(to_hex(values[1]), "03000000636400");
  EXPECT_EQ(to_hex(values[2]), "0100000000");
  EXPECT_EQ(to_hex(values[3]), "03000000656600");
  EXPECT_EQ(to_hex(values[4]), "03000000676800");
  values.clear();
  values.add_string("z");
  EXPECT_EQ(to_hex(values[0]), "020000007a00");
}

TEST(Values, SucceedsWithSeveralAtOnce) {
  for (const bool others : {false, true}) {
    Values values;
    if (others) values.add_string("abcdefghij");
    std::uint8_t* const at = values.add(bson::Type::int64, 8, 3);
    for (int i = 0; i < 3; ++i) store_i64(at + 8 * i, i);
    values.add(bson::Type::int64, 8, 0);
    store_i32(values.add(bson::Type::int32, 4), 7);
    const std::size_t first = others ? 1 : 0;
    ASSERT_EQ(values.size(), first + 4);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(load_i64(values[first + i].data()), static_cast<std::int64_t>(i));
      EXPECT_EQ(values[first + i].size(), 8U);
    }
    EXPECT_EQ(to_hex(values[first + 3]), "07000000");
  }
}

TEST(Values, SucceedsWithReuseAfterClear) {
  Values values;
  values.add_string("old");
  values.clear();
  EXPECT_EQ(values.size(), 0U);
  store_i64(values.add(bson::Type::int64, 8), 258);
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(values.type(), bson::Type::int64);
  EXPECT_EQ(to_hex(values[0]), "0201000000000000");
}

}  // namespace values_test
}  // namespace idproxy::ids
