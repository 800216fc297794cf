#include "idproxy/ids/scope.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "support/hex.hpp"

namespace idproxy::ids {
namespace scope_test {

using bson::Type;

/// A value of any type, from its bytes.
struct Value {
  Type type;
  std::string bytes;
  [[nodiscard]] bson::Element element() const {
    bson::Element result;
    result.type = type;
    result.value = as_bytes(bytes);
    return result;
  }
};

std::string little(std::uint64_t number, std::size_t size = 8) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xffU);
  return bytes;
}

Value of_double(double number) {
  return {Type::number_double, little(std::bit_cast<std::uint64_t>(number))};
}
/// coefficient * 10^exponent
Value decimal(std::uint64_t coefficient, int exponent, bool negative = false) {
  const auto biased = static_cast<std::uint64_t>(exponent + 6176);
  return {Type::decimal128,
          little(coefficient) + little(biased << 49U | (negative ? std::uint64_t{1} << 63U : 0))};
}
Value text(const std::string& content) {
  return {Type::string, little(content.size() + 1, 4) + content + std::string(1, '\0')};
}

/// The canonical form, or why there is none.
std::string canonical(const Value& value) {
  Buffer out;
  const std::string why = append_scope(out, "t", value.element());
  return why.empty() ? test::to_hex(out.view()) : why;
}

/// {t: value}
std::string document_of(const Value& value) {
  Buffer out;
  bson::Scope scope(out);
  bson::append_head(out, value.type, "t");
  out.append(as_bytes(value.bytes));
  scope.close();
  return std::string(as_text(out.view()));
}

TEST(Scope, OfMongooseSequenceHasUuidsAsText) {
  const std::string uuid("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff", 16);
  const auto binary = [](const std::string& bytes, char subtype) {
    return document_of({Type::binary, little(bytes.size(), 4) + std::string(1, subtype) + bytes});
  };
  EXPECT_EQ(reference_value(binary(uuid, 4)),
            document_of(text("00112233-4455-6677-8899-aabbccddeeff")));
  for (const std::string& other :
       {binary(uuid, 0), binary(uuid, 3), binary(uuid.substr(1), 4), document_of(text("a")),
        document_of({Type::null, ""}), document_of({Type::int64, little(7)})}) {
    EXPECT_EQ(reference_value(other), other);
  }
}

TEST(Scope, IsReadAsOthersWriteIt) {
  const std::string seven = document_of({Type::int64, little(7)});
  for (const Value& value : {Value{Type::int32, little(7, 4)}, of_double(7.0), decimal(70, -1)}) {
    EXPECT_EQ(as_scope(as_bytes(document_of(value))), seven);
  }
  EXPECT_EQ(as_scope(as_bytes(document_of(of_double(1.5)))), std::nullopt);
  EXPECT_EQ(as_scope(as_bytes(document_of({Type::array, little(5, 4) + std::string(1, '\0')}))),
            std::nullopt);
}

TEST(Scope, TakesEqualIntegersAsOne) {
  const std::string one = "1274000100000000000000";
  const std::vector<Value> ones{{Type::int32, little(1, 4)},
                                {Type::int64, little(1)},
                                of_double(1.0),
                                decimal(1, 0),
                                decimal(10, -1),
                                decimal(1000, -3)};
  for (const Value& value : ones) EXPECT_EQ(canonical(value), one);
  EXPECT_EQ(canonical(of_double(-0.0)), canonical({Type::int32, little(0, 4)}));
  EXPECT_EQ(canonical(decimal(0, 6000, true)), canonical({Type::int32, little(0, 4)}));
  EXPECT_EQ(canonical(decimal(12, 2, true)), canonical(of_double(-1200)));
}

TEST(Scope, TakesTheWholeRangeOfInt64) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(integer_of(decimal(std::uint64_t{1} << 63U, 0, true).element()), Limits::min());
  EXPECT_EQ(integer_of(decimal(static_cast<std::uint64_t>(Limits::max()), 0).element()),
            Limits::max());
  EXPECT_EQ(integer_of(of_double(-9223372036854775808.0).element()), Limits::min());
  EXPECT_EQ(integer_of(of_double(9223372036854774784.0).element()), 9223372036854774784);
  EXPECT_EQ(integer_of(of_double(9223372036854775808.0).element()), std::nullopt);
  EXPECT_EQ(integer_of(decimal(std::uint64_t{1} << 63U, 0).element()), std::nullopt);
  EXPECT_EQ(integer_of(decimal(1, 19).element()), std::nullopt);
  EXPECT_EQ(integer_of(decimal(1, 6000).element()), std::nullopt);
}

TEST(Scope, TakesOtherTypesAsTheyAre) {
  EXPECT_EQ(canonical(text("ab")), "02740003000000616200");
  EXPECT_EQ(canonical({Type::boolean, std::string(1, '\1')}), "08740001");
  EXPECT_EQ(canonical({Type::null, ""}), "0a7400");
  EXPECT_EQ(canonical({Type::date, little(5)}), "0974000500000000000000");
  EXPECT_EQ(canonical({Type::object_id, std::string(12, 'x')}), "077400787878787878787878787878");
  EXPECT_EQ(canonical({Type::binary, little(2, 4) + "\4ab"}), "05740002000000046162");
}

TEST(Scope, FailsIfTheValueCannotBeCompared) {
  EXPECT_EQ(canonical(of_double(1.5)), "is not an integer");
  EXPECT_EQ(canonical(of_double(1e300)), "is not an integer");
  EXPECT_EQ(canonical(of_double(std::numeric_limits<double>::quiet_NaN())), "is not an integer");
  EXPECT_EQ(canonical(of_double(std::numeric_limits<double>::infinity())), "is not an integer");
  EXPECT_EQ(canonical(decimal(15, -1)), "is not an integer");
  EXPECT_EQ(canonical(decimal(1, -6176)), "is not an integer");
  EXPECT_EQ(canonical({Type::decimal128, little(0) + little(std::uint64_t{0x7c} << 56U)}),
            "is not an integer");  // NaN
  EXPECT_EQ(canonical({Type::array, little(5, 4) + std::string(1, '\0')}), "is an array");
  for (const Type type : {Type::document, Type::regex, Type::timestamp, Type::undefined,
                          Type::symbol, Type::code, Type::min_key, Type::max_key}) {
    EXPECT_EQ(canonical({type, little(5, 4) + std::string(1, '\0')}), "has an unsuitable type");
  }
}

TEST(Scope, FailsIfTheValueIsLong) {
  EXPECT_EQ(canonical(text(std::string(257, 'a'))), "is longer than 256 bytes");
  EXPECT_EQ(canonical({Type::binary, little(257, 4) + std::string(258, '\0')}),
            "is longer than 256 bytes");
  EXPECT_EQ(canonical(text(std::string(256, 'a'))).size(), 2 * (3 + 4 + 257U));
  EXPECT_EQ(canonical({Type::binary, little(256, 4) + std::string(257, '\0')}).size(),
            2 * (3 + 5 + 256U));
}

TEST(Scope, StandsInATemplateAsTextOrInteger) {
  EXPECT_EQ(text_in_template(text("a b").element()), "a b");
  EXPECT_EQ(text_in_template(of_double(-7).element()), "-7");
  EXPECT_EQ(text_in_template(text(std::string(257, 'a')).element()), std::nullopt);
  EXPECT_EQ(text_in_template(of_double(0.5).element()), std::nullopt);
  EXPECT_EQ(text_in_template(Value{Type::boolean, std::string(1, '\1')}.element()), std::nullopt);
}

}  // namespace scope_test
}  // namespace idproxy::ids
