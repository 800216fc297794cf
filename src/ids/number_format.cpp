#include "idproxy/ids/number_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

namespace idproxy::ids {
namespace {

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

/// Puts the check digits into a text of `size` bytes that lacks them; there is room behind it.
void insert_check(std::uint8_t* text, std::size_t size, const NumberFormat& format) {
  const std::string check = check_digits_of(format.check, as_text({text, size}));
  const bool in_front = format.check_in == NumberFormat::Part::prefix;
  std::uint8_t* place = text + format.check_at + (in_front ? 0 : size - format.suffix.size());
  std::copy_backward(place, text + size, text + size + check.size());
  put(check, place);
}

void append_text(std::int64_t number, const NumberFormat& format, Values& out) {
  const Digits digits(number);
  const std::size_t zeros = format.pad - std::min<std::size_t>(format.pad, digits.digits.size());
  const std::size_t size = format.prefix.size() + (digits.negative ? 1 : 0) + zeros +
                           digits.digits.size() + format.suffix.size();
  std::uint8_t* const text = out.add_string(size + width_of(format.check));
  std::uint8_t* at = put(format.prefix, text);
  if (digits.negative) *at++ = '-';
  at = std::fill_n(at, zeros, std::uint8_t{'0'});
  at = put(digits.digits, at);
  put(format.suffix, at);
  if (format.check != Check::none) insert_check(text, size, format);
}

std::optional<std::int64_t> parse(std::string_view text, const NumberFormat& format) {
  const std::size_t check = width_of(format.check);
  const std::size_t around = format.prefix.size() + format.suffix.size() + check;
  if (text.size() <= around) return std::nullopt;
  const bool check_in_front = format.check_in == NumberFormat::Part::prefix;
  const std::size_t begin = format.prefix.size() + (check_in_front ? check : 0);
  // Check digits that stand right behind the number are not part of it.
  const std::string_view middle = text.substr(begin, text.size() - around);
  std::int64_t number = 0;
  const auto read = std::from_chars(middle.data(), middle.data() + middle.size(), number);
  // Writing the number again checks all the rest.
  if (read.ec != std::errc{} || number_text(number, format) != text) return std::nullopt;
  return number;
}

/// Removes the check digits from a text that has room for them.
void remove_check(std::string& text, const NumberFormat& format) {
  const std::size_t size = text.size() - width_of(format.check);
  const bool in_front = format.check_in == NumberFormat::Part::prefix;
  text.erase(format.check_at + (in_front ? 0 : size - format.suffix.size()),
             width_of(format.check));
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

std::size_t longest(const NumberFormat& format) {
  if (format.output != NumberFormat::Output::string) return 8;
  constexpr std::size_t kDigits = std::numeric_limits<std::int64_t>::digits10 + 1;
  constexpr std::size_t kMinus = 1;
  constexpr std::size_t kLengthAndNul = 4 + 1;
  return kLengthAndNul + format.prefix.size() + kMinus +
         std::max<std::size_t>(kDigits, format.pad) + format.suffix.size() + width_of(format.check);
}

std::int64_t largest_number(std::size_t digits) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, 9, &number)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return number;
}

std::string number_text(std::int64_t number, const NumberFormat& format) {
  Values values;
  append_text(number, format, values);
  return std::string(as_text(values[0].subspan(4, values[0].size() - 5)));
}

std::optional<std::int64_t> read_number(bson::Type type, Bytes value, const NumberFormat& format) {
  switch (format.output) {
    case NumberFormat::Output::int64:
      if (type == bson::Type::int64) return load_i64(value.data());
      break;
    case NumberFormat::Output::int32:
      if (type == bson::Type::int32) return load_i32(value.data());
      break;
    case NumberFormat::Output::string:
      if (type == bson::Type::string)
        return parse(as_text(value.subspan(4, value.size() - 5)), format);
      break;
  }
  return std::nullopt;
}

FittedNumber fit_number(bson::Type type, Bytes value, const NumberFormat& format) {
  const bool is_text = format.output == NumberFormat::Output::string;
  const bool is_narrow = format.output == NumberFormat::Output::int32;
  const bson::Type output = is_narrow ? bson::Type::int32 : bson::Type::int64;
  if (type != (is_text ? bson::Type::string : output)) return {Fit::wrong_type};
  if (const auto number = read_number(type, value, format)) return {Fit::fits, number};
  std::string text(as_text(value.subspan(4, value.size() - 5)));
  const std::size_t around = format.prefix.size() + format.suffix.size() + width_of(format.check);
  if (format.check == Check::none || text.size() <= around) return {Fit::wrong_form};
  remove_check(text, format);
  NumberFormat without = format;
  without.check = Check::none;
  const auto number = parse(text, without);
  return {number ? Fit::wrong_check : Fit::wrong_form, number};
}

}  // namespace idproxy::ids
