#include "idproxy/ids/check_digits.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "idproxy/base/parameters.hpp"

namespace idproxy::ids {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

unsigned value_of(char digit) {
  return static_cast<unsigned>(digit - '0');
}

std::string one_digit(unsigned value) {
  return std::string(1, static_cast<char>('0' + value));
}

/// Calls `use` with the value of each digit.
template <class Text, class Use>
void for_each_digit(const Text& text, Use use) {
  for (const char c : text) {
    if (is_digit(c)) use(value_of(c));
  }
}

/// The digits of `text` from the last to the first.
std::string reversed(std::string_view text) {
  std::string digits;
  std::copy_if(text.rbegin(), text.rend(), std::back_inserter(digits), is_digit);
  return digits;
}

/// Every second digit counts twice, beginning with the last one.
std::string luhn(std::string_view text) {
  unsigned sum = 0;
  bool twice = true;
  for_each_digit(reversed(text), [&](unsigned digit) {
    const unsigned product = twice ? 2 * digit : digit;
    sum += product / 10 + product % 10;
    twice = !twice;
  });
  return one_digit((10 - sum % 10) % 10);
}

using Table = std::array<std::array<unsigned, 10>, 10>;

/// A totally anti-symmetric quasigroup of order 10 (Damm, page 111).
constexpr Table kDamm{{{0, 3, 1, 7, 5, 9, 8, 6, 4, 2},
                       {7, 0, 9, 2, 1, 5, 4, 8, 6, 3},
                       {4, 2, 0, 6, 8, 7, 1, 3, 5, 9},
                       {1, 7, 5, 0, 9, 8, 3, 4, 2, 6},
                       {6, 1, 2, 3, 0, 4, 5, 9, 7, 8},
                       {3, 6, 7, 4, 2, 0, 9, 5, 8, 1},
                       {5, 8, 6, 9, 7, 2, 0, 1, 3, 4},
                       {8, 9, 4, 5, 3, 6, 2, 0, 1, 7},
                       {9, 4, 3, 8, 6, 1, 7, 2, 0, 5},
                       {2, 5, 8, 1, 4, 3, 6, 7, 9, 0}}};

std::string damm(std::string_view text) {
  unsigned interim = 0;
  for_each_digit(text, [&](unsigned digit) { interim = kDamm[interim][digit]; });
  return one_digit(interim);
}

/// The multiplication of the dihedral group D5.
constexpr Table kDihedral{{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                           {1, 2, 3, 4, 0, 6, 7, 8, 9, 5},
                           {2, 3, 4, 0, 1, 7, 8, 9, 5, 6},
                           {3, 4, 0, 1, 2, 8, 9, 5, 6, 7},
                           {4, 0, 1, 2, 3, 9, 5, 6, 7, 8},
                           {5, 9, 8, 7, 6, 0, 4, 3, 2, 1},
                           {6, 5, 9, 8, 7, 1, 0, 4, 3, 2},
                           {7, 6, 5, 9, 8, 2, 1, 0, 4, 3},
                           {8, 7, 6, 5, 9, 3, 2, 1, 0, 4},
                           {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}};
constexpr std::array<unsigned, 10> kInverse{0, 4, 3, 2, 1, 5, 6, 7, 8, 9};
/// The permutation that is applied to a digit as often as its place from the right says.
constexpr std::array<unsigned, 10> kPermutation{1, 5, 7, 6, 2, 8, 3, 0, 9, 4};

std::string verhoeff(std::string_view text) {
  constexpr std::size_t kCycle = 8;  // the permutation's eighth power is the identity
  unsigned sum = 0;
  std::size_t place = 0;  // the check digit has place 0
  for_each_digit(reversed(text), [&](unsigned digit) {
    place = (place + 1) % kCycle;
    for (std::size_t i = 0; i < place; ++i) digit = kPermutation[digit];
    sum = kDihedral[sum][digit];
  });
  return one_digit(kInverse[sum]);
}

/// The number with its two check digits leaves the remainder 1.
std::string mod97_10(std::string_view text) {
  unsigned remainder = 0;
  for_each_digit(text, [&](unsigned digit) { remainder = (remainder * 10 + digit) % 97; });
  const unsigned check = 98 - remainder * 100 % 97;
  return one_digit(check / 10) + one_digit(check % 10);
}

std::string mod11_10(std::string_view text) {
  unsigned product = 10;
  for_each_digit(text, [&](unsigned digit) {
    const unsigned sum = (product + digit) % 10;
    product = (sum == 0 ? 10 : sum) * 2 % 11;
  });
  return one_digit((11 - product) % 10);
}

}  // namespace

Check read_check(Parameters& rule) {
  return static_cast<Check>(
      rule.choice("check", {"none", "luhn", "damm", "verhoeff", "mod97-10", "mod11-10"}));
}

std::size_t width_of(Check check) {
  if (check == Check::none) return 0;
  return check == Check::mod97_10 ? 2 : 1;
}

std::string check_digits_of(Check check, std::string_view text) {
  using Make = std::string (*)(std::string_view);
  constexpr std::array<Make, 6> kBy{nullptr, luhn, damm, verhoeff, mod97_10, mod11_10};
  const Make make = kBy[static_cast<std::size_t>(check)];
  return make == nullptr ? std::string() : make(text);
}

}  // namespace idproxy::ids
