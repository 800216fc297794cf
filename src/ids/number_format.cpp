#include "idproxy/ids/number_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "ids/encoding.hpp"

namespace idproxy::ids {
namespace {

constexpr std::size_t kTenDigits = 10;
constexpr unsigned kNumberBits = 63;

bool writes_decimals(const NumberFormat& format) {
  return format.alphabet.size() == kTenDigits && !format.permutation;
}

std::uint64_t distance_from_0(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  return number < 0 ? 0 - bits : bits;
}

/// The digits of a number without its sign, as the format writes them, but for `pad`.
struct Digits {
  Digits(std::int64_t number, const NumberFormat& format)
      : negative(number < 0 && !format.permutation) {
    std::size_t size = 0;
    if (format.permutation) {
      size = format.permutation->space().length;
      format.permutation->write(number, bytes());
    } else if (writes_decimals(format)) {
      const auto written = std::to_chars(text.data(), text.data() + text.size(), number);
      size = static_cast<std::size_t>(written.ptr - text.data());
    } else {
      size = digits_in(number, format);
      encode(distance_from_0(number), format.alphabet, {bytes(), size});
    }
    digits = std::string_view(text.data(), size);
    if (negative && writes_decimals(format)) digits.remove_prefix(1);
  }
  [[nodiscard]] std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(text.data()); }

  std::array<char, 40> text;
  bool negative;
  std::string_view digits;
};

/// Not all that it reads is written so.
std::optional<std::int64_t> read_in_digits(std::string_view digits, const NumberFormat& format) {
  if (format.permutation) return format.permutation->read(digits);
  if (writes_decimals(format)) {
    std::int64_t number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return read.ec == std::errc{} ? std::optional(number) : std::nullopt;
  }
  const bool negative = digits.starts_with('-');
  const auto bits = decode(digits.substr(negative ? 1 : 0), format.alphabet, kNumberBits);
  if (!bits) return {};
  const auto number = static_cast<std::int64_t>(*bits);
  return negative ? -number : number;
}

/// The number, of at most 18 digits, that stands for another one.
std::int64_t hidden(std::int64_t number, const NumberFormat& format) {
  const Digits digits(number, format);
  return read_in_digits(digits.digits, {}).value_or(-1);
}

std::optional<std::int64_t> read_hidden(std::int64_t number, const Permutation& permutation) {
  if (number < 0) return {};
  std::string text = std::to_string(number);
  const std::size_t length = permutation.space().length;
  text.insert(0, length - std::min(length, text.size()), '0');
  return permutation.read(text);
}

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
  const Digits digits(number, format);
  const std::size_t zeros = format.pad - std::min<std::size_t>(format.pad, digits.digits.size());
  const std::size_t size = format.prefix.size() + (digits.negative ? 1 : 0) + zeros +
                           digits.digits.size() + format.suffix.size();
  std::uint8_t* const text = out.add_string(size + width_of(format.check));
  std::uint8_t* at = put(format.prefix, text);
  if (digits.negative) *at++ = '-';
  at = std::fill_n(at, zeros, static_cast<std::uint8_t>(format.alphabet.front()));
  at = put(digits.digits, at);
  put(format.suffix, at);
  if (format.check != Check::none) insert_check(text, size, format);
}

std::optional<std::int64_t> parse(std::string_view text, const NumberFormat& format) {
  const std::size_t check = width_of(format.check);
  const std::size_t around = format.prefix.size() + format.suffix.size() + check;
  if (text.size() <= around) return {};
  const bool check_in_front = format.check_in == NumberFormat::Part::prefix;
  const std::size_t begin = format.prefix.size() + (check_in_front ? check : 0);
  // Check digits that stand right behind the number are not part of it.
  const auto read = read_in_digits(text.substr(begin, text.size() - around), format);
  // Writing the number again checks all the rest.
  if (!read || number_text(*read, format) != text) return {};
  return read;
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
      return store_i64(out.add(bson::Type::int64, 8),
                       format.permutation ? hidden(number, format) : number);
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
  const std::size_t own = format.permutation ? format.permutation->space().length : format.pad;
  const std::size_t most = std::max(kDigits, own);
  return kLengthAndNul + format.prefix.size() + kMinus + most + format.suffix.size() +
         width_of(format.check);
}

std::int64_t largest_number(std::size_t digits, std::size_t radix) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    if (__builtin_mul_overflow(number, radix, &number) ||
        __builtin_add_overflow(number, radix - 1, &number)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return number;
}

std::string digit_pattern(std::string_view alphabet) {
  std::string pattern = "[";
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < alphabet.size() && alphabet[last + 1] == alphabet[last] + 1) ++last;
    pattern += alphabet[i];
    if (last > i) pattern.append("-").append(1, alphabet[last]);
    i = last;
  }
  return pattern + "]";
}

std::size_t digits_in(std::int64_t number, const NumberFormat& format) {
  std::size_t digits = 0;
  for (std::uint64_t left = distance_from_0(number); left > 0 || digits == 0; ++digits) {
    left /= format.alphabet.size();
  }
  return digits;
}

std::string number_text(std::int64_t number, const NumberFormat& format) {
  Values values;
  append_text(number, format, values);
  return plain_text(values.type(), values[0]);
}

std::optional<std::int64_t> read_number(bson::Type type, Bytes value, const NumberFormat& format) {
  switch (format.output) {
    case NumberFormat::Output::int64: {
      if (type != bson::Type::int64) break;
      const std::int64_t number = load_i64(value.data());
      return format.permutation ? read_hidden(number, *format.permutation) : std::optional(number);
    }
    case NumberFormat::Output::int32:
      if (type == bson::Type::int32) return load_i32(value.data());
      break;
    case NumberFormat::Output::string:
      if (type == bson::Type::string) return parse(text_in_string(value), format);
      break;
  }
  return {};
}

FittedNumber fit_number(bson::Type type, Bytes value, const NumberFormat& format) {
  const bool is_text = format.output == NumberFormat::Output::string;
  const bool is_narrow = format.output == NumberFormat::Output::int32;
  const bson::Type output = is_narrow ? bson::Type::int32 : bson::Type::int64;
  if (type != (is_text ? bson::Type::string : output)) return {Fit::wrong_type};
  if (const auto number = read_number(type, value, format)) return {Fit::fits, number};
  if (!is_text) return {Fit::wrong_form};
  std::string text(text_in_string(value));
  const std::size_t around = format.prefix.size() + format.suffix.size() + width_of(format.check);
  if (format.check == Check::none || text.size() <= around) return {Fit::wrong_form};
  remove_check(text, format);
  NumberFormat without = format;
  without.check = Check::none;
  const auto number = parse(text, without);
  return {number ? Fit::wrong_check : Fit::wrong_form, number};
}

}  // namespace idproxy::ids
