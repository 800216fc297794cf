#include "id_store/number_texts.hpp"

#include <gtest/gtest.h>

#include <string>

#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store::test {
namespace number_texts_test {

ids::NumberFormat format_of(std::string prefix, std::uint32_t pad) {
  ids::NumberFormat format;
  format.output = ids::NumberFormat::Output::string;
  format.prefix = std::move(prefix);
  format.pad = pad;
  return format;
}

std::string texts(TextClass which, TextOrder order, const TextRange& within = {}) {
  return mongo::json_of(texts_of(which, format_of("A2-", 3), within, order).bytes());
}

TEST(TextsOf, AreBetweenTheBytesAroundDigits) {
  constexpr auto kBytes = TextOrder::of_bytes;
  EXPECT_EQ(texts(TextClass::positive, kBytes),
            R"({ "$gte" : "A2-0", "$lt" : "A2-:", "$regex" : "^A2\\-[0-9]{3}\\z" })");
  EXPECT_EQ(texts(TextClass::wide, kBytes),
            R"({ "$gte" : "A2-1", "$lt" : "A2-:", "$regex" : "^A2\\-[1-9][0-9]{3,}\\z" })");
  EXPECT_EQ(texts(TextClass::positive, kBytes, {{}, "A2-500"}),
            R"({ "$gte" : "A2-0", "$lte" : "A2-500", "$regex" : "^A2\\-[0-9]{3}\\z" })");
}

TEST(TextsOf, AreByACollationBetweenTheFirstAndTheLastOne) {
  constexpr auto kCollation = TextOrder::of_collation;
  EXPECT_EQ(texts(TextClass::positive, kCollation),
            R"({ "$gte" : "A2-000", "$lte" : "A2-999", )"
            R"("$regex" : "^[^0-9]*2[^0-9]*[0-9]{3}[^0-9]*\\z" })");
  EXPECT_EQ(texts(TextClass::positive, TextOrder::of_numbers),
            R"({ "$gte" : "A2-000", "$lte" : "A2-999", )"
            R"("$regex" : "^[^0-9]*2[^0-9]*[0-9]+[^0-9]*\\z" })");
  EXPECT_EQ(texts(TextClass::negative, kCollation),
            R"({ "$gte" : "A2--001", "$lte" : "A2--999", "$regex" : "^A2\\-\\-[0-9]{3}\\z" })");
  EXPECT_EQ(texts(TextClass::wide, kCollation),
            R"({ "$gte" : "A2-1", "$regex" : "^A2\\-[1-9][0-9]{3,}\\z" })");
}

TEST(TextsOf, HaveTheDigitsOfTheFormat) {
  ids::NumberFormat format = format_of("T", 2);
  format.alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  EXPECT_EQ(mongo::json_of(texts_of(TextClass::positive, format).bytes()),
            R"({ "$gte" : "T1", "$lt" : "T{", "$regex" : "^T[1-9A-HJ-NP-Za-km-z]{2}\\z" })");
  EXPECT_EQ(mongo::json_of(texts_of(TextClass::wide, format).bytes()),
            R"({ "$gte" : "T2", "$lt" : "T{", )"
            R"("$regex" : "^T[2-9A-HJ-NP-Za-km-z][1-9A-HJ-NP-Za-km-z]{2,}\\z" })");
  EXPECT_EQ(class_of(3363, format), TextClass::positive);
  EXPECT_EQ(class_of(3364, format), TextClass::wide);
}

TEST(TextsOf, EndWithTheLargestNumber) {
  const auto all = texts_of(TextClass::positive, format_of("", 25), {}, TextOrder::of_collation);
  EXPECT_EQ(bson::text_in(all.bytes(), "$lte"), "0000009223372036854775807");
}

}  // namespace number_texts_test
}  // namespace idproxy::id_store::test
