#include "idproxy/ids/check_digits.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace idproxy::ids {
namespace check_digits_test {

constexpr std::array kAll{Check::luhn, Check::damm, Check::verhoeff, Check::mod97_10,
                          Check::mod11_10};

struct Vector {
  Check check;
  const char* digits;
  const char* expected;
};

// docs/templates.md#check-digits
constexpr Vector kVectors[] = {
    {Check::luhn, "7992739871", "3"},
    {Check::luhn, "123456789012", "8"},
    {Check::damm, "572", "4"},
    {Check::damm, "123456789012", "3"},
    {Check::verhoeff, "236", "3"},
    {Check::verhoeff, "12345", "1"},
    {Check::verhoeff, "123456789012", "0"},
    {Check::mod97_10, "794", "44"},
    {Check::mod97_10, "123456789012", "44"},
    {Check::mod11_10, "0794", "5"},
    {Check::mod11_10, "123456789012", "4"},
};

TEST(CheckDigits, SucceedWithTheVectors) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(check_digits_of(vector.check, vector.digits), vector.expected)
        << static_cast<int>(vector.check) << " " << vector.digits;
  }
}

TEST(CheckDigits, AreAsManyAsTheirWidth) {
  EXPECT_EQ(width_of(Check::none), 0U);
  EXPECT_EQ(check_digits_of(Check::none, "123"), "");
  for (const Check check : kAll) {
    for (const char* digits : {"", "0", "9", "100", "98"}) {
      EXPECT_EQ(check_digits_of(check, digits).size(), width_of(check)) << digits;
    }
  }
}

TEST(CheckDigits, IgnoreWhatIsNoDigit) {
  for (const Check check : kAll) {
    EXPECT_EQ(check_digits_of(check, "INV-2026/0042 \xc3\xa4"), check_digits_of(check, "20260042"));
  }
}

TEST(CheckDigits, FindEveryWrongDigit) {
  for (const Check check : kAll) {
    for (int number = 0; number < 1000; ++number) {
      const std::string right = std::to_string(number);
      for (std::size_t at = 0; at < right.size(); ++at) {
        std::string wrong = right;
        wrong[at] = static_cast<char>('0' + (wrong[at] - '0' + 1 + number % 9) % 10);
        EXPECT_NE(check_digits_of(check, wrong), check_digits_of(check, right)) << right;
      }
    }
  }
}

TEST(CheckDigits, FindSwappedNeighbours) {
  for (const Check check : {Check::damm, Check::verhoeff, Check::mod97_10}) {
    for (char a = '0'; a <= '9'; ++a) {
      for (char b = '0'; b <= '9'; ++b) {
        if (a == b) continue;
        const std::string right{'7', a, b, '3'};
        const std::string swapped{'7', b, a, '3'};
        EXPECT_NE(check_digits_of(check, right), check_digits_of(check, swapped)) << right;
      }
    }
  }
}

}  // namespace check_digits_test
}  // namespace idproxy::ids
