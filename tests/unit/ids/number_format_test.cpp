#include "idproxy/ids/number_format.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "support/hex.hpp"

namespace idproxy::ids {
namespace number_format_test {

using bson::Type;
using Output = NumberFormat::Output;
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

NumberFormat string_format(std::uint32_t pad, std::string prefix = "", std::string suffix = "") {
  return {Output::string, pad, std::move(prefix), std::move(suffix)};
}

NumberFormat encoded(std::uint32_t pad, std::string alphabet) {
  NumberFormat format = string_format(pad, "R-");
  format.alphabet = std::move(alphabet);
  return format;
}
constexpr const char* kBase36 = "0123456789abcdefghijklmnopqrstuvwxyz";

NumberFormat checked(NumberFormat format, Check check, NumberFormat::Part in, std::size_t at) {
  format.check = check;
  format.check_in = in;
  format.check_at = at;
  return format;
}
constexpr auto kPrefix = NumberFormat::Part::prefix;
constexpr auto kSuffix = NumberFormat::Part::suffix;

struct Text {
  const char* name;
  NumberFormat format;
  std::int64_t number;
  const char* text;
};

const std::vector<Text>& texts() {
  static const std::vector<Text> kTexts{
      {"plain", string_format(0), 42, "42"},
      {"zero", string_format(0), 0, "0"},
      {"padded", string_format(5), 42, "00042"},
      {"padded_zero", string_format(3), 0, "000"},
      {"as_wide_as_pad", string_format(2), 42, "42"},
      {"wider_than_pad", string_format(2), 12345, "12345"},
      {"negative", string_format(0), -42, "-42"},
      {"zeros_behind_the_minus", string_format(5), -42, "-00042"},
      {"around", string_format(4, "A-", "/x"), 7, "A-0007/x"},
      {"digits_around", string_format(0, "2024", "0"), 17, "2024170"},
      {"minus_behind_prefix", string_format(0, "-", ""), -1, "--1"},
      {"lowest", string_format(0), kMin, "-9223372036854775808"},
      {"check", checked(string_format(0), Check::damm, kSuffix, 0), 572, "5724"},
      {"check_of_zeros", checked(string_format(4), Check::mod11_10, kSuffix, 0), 794, "07945"},
      {"check_of_all_digits", checked(string_format(3, "5", ""), Check::damm, kSuffix, 0), 72,
       "50725"},
      {"two_check_digits", checked(string_format(0, "A", "-/x"), Check::mod97_10, kSuffix, 1), 794,
       "A794-44/x"},
      {"check_in_front", checked(string_format(0, "DE-", ""), Check::mod97_10, kPrefix, 2), 794,
       "DE44-794"},
      {"check_of_negative", checked(string_format(0), Check::luhn, kSuffix, 0), -7992739871,
       "-79927398713"},
      {"highest", string_format(34), kMax, "0000000000000009223372036854775807"},
      {"encoded", encoded(0, kBase36), 35, "R-z"},
      {"encoded_zero", encoded(0, kBase36), 0, "R-0"},
      {"encoded_width", encoded(4, kBase36), 1295, "R-00zz"},
      {"encoded_beyond_its_width", encoded(2, kBase36), 1296, "R-100"},
      {"encoded_highest", encoded(0, "0123456789abcdef"), kMax, "R-7fffffffffffffff"},
      {"encoded_without_0",
       encoded(3, "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"), 58, "R-121"},
      {"encoded_negative", encoded(3, kBase36), -36, "R--010"},
  };
  return kTexts;
}

TEST(NumberFormat, SucceedsWithTextsAndBack) {
  for (const Text& row : texts()) {
    Values values;
    append_number(row.number, row.format, values);
    ASSERT_EQ(values.type(), Type::string) << row.name;
    const Bytes value = values[0];
    EXPECT_EQ(as_text(value.subspan(4, value.size() - 5)), row.text) << row.name;
    EXPECT_EQ(number_text(row.number, row.format), row.text) << row.name;
    EXPECT_EQ(read_number(Type::string, value, row.format), row.number) << row.name;
    EXPECT_GE(longest(row.format), value.size()) << row.name;
  }
}

TEST(NumberFormat, SucceedsWithNumbersAndBack) {
  for (const std::int64_t number : {kMin, std::int64_t{-1}, std::int64_t{0}, kMax}) {
    Values values;
    append_number(number, {}, values);
    ASSERT_EQ(values.type(), Type::int64);
    EXPECT_EQ(read_number(Type::int64, values[0], {}), number);
  }
  const NumberFormat narrow{Output::int32, 0, "", ""};
  Values values;
  append_number(-2147483648, narrow, values);
  EXPECT_EQ(values.type(), Type::int32);
  EXPECT_EQ(test::to_hex(values[0]), "00000080");
  EXPECT_EQ(read_number(Type::int32, values[0], narrow), -2147483648);
}

TEST(NumberFormat, TakesNoTextThatItWouldNotWrite) {
  const NumberFormat format = string_format(3, "A", "Z");
  for (const char* text :
       {"", "A", "AZ", "A001", "001Z", "A1Z", "A01Z", "A0001Z", "A+01Z", "A-1Z", "A-000Z", "A 01Z",
        "A0x1Z", "A9223372036854775808Z", "B001Z", "A001ZZ"}) {
    Values values;
    values.add_string(text);
    EXPECT_EQ(read_number(Type::string, values[0], format), std::nullopt) << text;
  }
  Values number;
  append_number(1, {}, number);
  EXPECT_EQ(read_number(Type::int64, number[0], format), std::nullopt);
  Values text;
  text.add_string("1");
  EXPECT_EQ(read_number(Type::string, text[0], {}), std::nullopt);
}

TEST(NumberFormat, TakesNoTextInOtherDigits) {
  const NumberFormat format = encoded(2, kBase36);
  for (const char* text : {"R-1", "R-001", "R-1A", "R-+1", "R--", "R-", "R--00", "R-1y2p0ij32e8e8",
                           "R-zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"}) {
    Values values;
    values.add_string(text);
    EXPECT_EQ(read_number(Type::string, values[0], format), std::nullopt) << text;
  }
}

TEST(NumberFormat, KnowsHowManyDigitsThereAre) {
  EXPECT_EQ(largest_number(2), 99);
  EXPECT_EQ(largest_number(2, 36), 1295);
  EXPECT_EQ(largest_number(10, 62), 839'299'365'868'340'223);
  EXPECT_EQ(largest_number(11, 62), kMax);
  EXPECT_EQ(digits_in(0, {}), 1U);
  EXPECT_EQ(digits_in(-100, {}), 3U);
  EXPECT_EQ(digits_in(kMin, {}), 19U);
  EXPECT_EQ(digits_in(1296, encoded(0, kBase36)), 3U);
  EXPECT_EQ(digit_pattern("0123456789"), "[0-9]");
  EXPECT_EQ(digit_pattern("123456789ABCDEFGHJKLMNP"), "[1-9A-HJ-NP]");
}

TEST(NumberFormat, TakesNoValueOfAnotherType) {
  const std::array<std::uint8_t, 16> bytes{1};
  for (const Type type : {Type::int32, Type::number_double, Type::decimal128, Type::boolean}) {
    EXPECT_EQ(read_number(type, bytes, {}), std::nullopt);
  }
  EXPECT_EQ(read_number(Type::int64, bytes, {Output::int32, 0, "", ""}), std::nullopt);
}

FittedNumber fitted(std::string_view text, const NumberFormat& format) {
  Values values;
  values.add_string(text);
  return fit_number(values.type(), values[0], format);
}

TEST(FitNumber, SaysWhetherOnlyTheCheckDigitsAreWrong) {
  const NumberFormat behind = checked(string_format(3, "A"), Check::mod97_10, kSuffix, 0);
  EXPECT_EQ(fitted("A79444", behind).fit, Fit::fits);
  EXPECT_EQ(fitted("A79444", behind).number, 794);
  EXPECT_EQ(fitted("A79445", behind).fit, Fit::wrong_check);
  EXPECT_EQ(fitted("A79445", behind).number, 794);
  EXPECT_EQ(fitted("A794", behind).fit, Fit::wrong_form);
  EXPECT_EQ(fitted("B79444", behind).fit, Fit::wrong_form);
  EXPECT_EQ(fitted("", behind).fit, Fit::wrong_form);
  const NumberFormat in_front = checked(string_format(3, "A-", "/z"), Check::damm, kPrefix, 1);
  EXPECT_EQ(fitted("A4-572/z", in_front).fit, Fit::fits);
  EXPECT_EQ(fitted("A5-572/z", in_front).fit, Fit::wrong_check);
  EXPECT_EQ(fit_number(Type::int32, {}, behind).fit, Fit::wrong_type);
}

}  // namespace number_format_test
}  // namespace idproxy::ids
