#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {

/// Appends a number as int64, int32 (it must fit) or string: prefix, a minus sign if negative, at
/// least `pad` digits, suffix. Example with pad 5, prefix "A-", suffix "/x": -42 is A--00042/x.
/// Check digits stand where the format says. With a permutation the number must be one of its.
void append_number(std::int64_t number, const NumberFormat& format, Values& out);

/// The most bytes that append_number() appends for one number.
[[nodiscard]] std::size_t longest(const NumberFormat& format);

/// The largest number with so many digits, of so many different ones.
[[nodiscard]] std::int64_t largest_number(std::size_t digits, std::size_t radix = 10);

/// A regular expression for one digit of an alphabet of letters and decimal digits: "[0-9A-F]".
[[nodiscard]] std::string digit_pattern(std::string_view alphabet);

/// How many digits a number has without `pad`.
[[nodiscard]] std::size_t digits_in(std::int64_t number, const NumberFormat& format);

/// The text of a number with NumberFormat::Output::string.
[[nodiscard]] std::string number_text(std::int64_t number, const NumberFormat& format);

/// The number in a value that append_number() wrote; nothing for a value of another type or a text
/// that it would not have written. `value` is in the form of bson::Element::value.
[[nodiscard]] std::optional<std::int64_t> read_number(bson::Type type, Bytes value,
                                                      const NumberFormat& format);

/// Whether a stored value is one that a rule would have written.
enum class Fit {
  fits,
  wrong_type,   ///< of another BSON type
  wrong_form,   ///< of that type, but written in another way
  wrong_check,  ///< only its check digits are wrong
};

/// As read_number(), with the reason if the value does not fit. The number is there, too, if only
/// the check digits are wrong. Not for a format with a pattern.
struct FittedNumber {
  Fit fit = Fit::fits;
  std::optional<std::int64_t> number{};
};
[[nodiscard]] FittedNumber fit_number(bson::Type type, Bytes value, const NumberFormat& format);

}  // namespace idproxy::ids
