#include "idproxy/ids/number_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::ids {
namespace {

using Int64 = std::numeric_limits<std::int64_t>;

/// "-9223372036854775808"
struct Digits {
  explicit Digits(std::int64_t number) {
    const auto written = std::to_chars(text.data(), text.data() + text.size(), number);
    const auto size = static_cast<std::size_t>(written.ptr - text.data());
    negative = number < 0;
    digits = std::string_view(text.data(), size).substr(negative ? 1 : 0);
  }

  std::array<char, 20> text{};
  bool negative = false;
  std::string_view digits;
};

std::uint8_t* put(std::string_view text, std::uint8_t* at) {
  return std::copy(text.begin(), text.end(), at);
}

void append_text(std::int64_t number, const NumberFormat& format, Values& out) {
  const Digits digits(number);
  const std::size_t zeros = format.pad - std::min<std::size_t>(format.pad, digits.digits.size());
  std::uint8_t* at = out.add_string(format.prefix.size() + (digits.negative ? 1 : 0) + zeros +
                                    digits.digits.size() + format.suffix.size());
  at = put(format.prefix, at);
  if (digits.negative) *at++ = '-';
  at = std::fill_n(at, zeros, std::uint8_t{'0'});
  at = put(digits.digits, at);
  put(format.suffix, at);
}

std::optional<std::int64_t> integer_of(double number) {
  constexpr double kEnd = 9223372036854775808.0;  // 2^63
  if (!(number >= -kEnd && number < kEnd) || std::trunc(number) != number) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<std::int64_t> signed_number(bool negative, Int128 magnitude) {
  const Int128 number = negative ? -magnitude : magnitude;
  if (number < Int64::min() || number > Int64::max()) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

/// IEEE 754-2008 decimal128 in its binary encoding: sign, 14 bits of exponent + 6176, 113 bits of
/// coefficient. The other form of the coefficient (the bits behind the sign are 11) holds no
/// canonical number, and NaN and infinity.
std::optional<std::int64_t> integer_of_decimal128(Bytes value) {
  constexpr int kBias = 6176;
  const auto low = static_cast<std::uint64_t>(load_i64(value.data()));
  const auto high = static_cast<std::uint64_t>(load_i64(value.data() + 8));
  if ((high >> 61 & 3) == 3) return std::nullopt;
  const bool negative = high >> 63 != 0;
  int exponent = static_cast<int>(high >> 49 & 0x3fff) - kBias;
  Int128 magnitude = static_cast<Int128>(high & 0x1'ffff'ffff'ffff) << 64 | low;
  if (magnitude == 0) return 0;
  for (; exponent < 0; ++exponent) {
    if (magnitude % 10 != 0) return std::nullopt;
    magnitude /= 10;
  }
  for (; exponent > 0; --exponent) {
    if (magnitude > Int64::max()) return std::nullopt;
    magnitude *= 10;
  }
  return signed_number(negative, magnitude);
}

std::optional<std::int64_t> parse(std::string_view text, const NumberFormat& format) {
  const std::size_t around = format.prefix.size() + format.suffix.size();
  if (text.size() <= around || !text.starts_with(format.prefix)) return std::nullopt;
  const std::string_view middle = text.substr(format.prefix.size(), text.size() - around);
  std::int64_t number = 0;
  const auto read = std::from_chars(middle.data(), middle.data() + middle.size(), number);
  // Zeros, signs and suffix are right if writing the number makes the same text.
  if (read.ec != std::errc{} || number_text(number, format) != text) return std::nullopt;
  return number;
}

}  // namespace

void append_number(std::int64_t number, const NumberFormat& format, Values& out) {
  switch (format.output) {
    case NumberFormat::Output::int64:
      return store_i64(out.add(bson::Type::int64, 8), number);
    case NumberFormat::Output::int32:
      return store_i32(out.add(bson::Type::int32, 4), static_cast<std::int32_t>(number));
    case NumberFormat::Output::string:
      return append_text(number, format, out);
  }
}

std::string number_text(std::int64_t number, const NumberFormat& format) {
  Values values;
  append_text(number, format, values);
  return std::string(as_text(values[0].subspan(4, values[0].size() - 5)));
}

std::optional<std::int64_t> read_number(bson::Type type, Bytes value, const NumberFormat& format) {
  if (format.output == NumberFormat::Output::string) {
    if (type != bson::Type::string) return std::nullopt;
    return parse(as_text(value.subspan(4, value.size() - 5)), format);
  }
  switch (type) {
    case bson::Type::int64:
      return load_i64(value.data());
    case bson::Type::int32:
      return load_i32(value.data());
    case bson::Type::number_double:
      return integer_of(std::bit_cast<double>(load_i64(value.data())));
    case bson::Type::decimal128:
      return integer_of_decimal128(value);
    default:
      return std::nullopt;
  }
}

}  // namespace idproxy::ids
