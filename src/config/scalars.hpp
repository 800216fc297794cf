#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// The text of a scalar -> a value, and back for messages.
namespace idproxy::config {

/// What was made of a text.
enum class Reading {
  ok,
  malformed,
  no_unit,    ///< a number where a number with a unit is needed
  too_large,  ///< well-formed, beyond what 64 bits hold
};

template <class T>
struct Scalar {
  Reading reading = Reading::malformed;
  T value{};
};

/// Decimal digits, perhaps behind a '-'. No leading zeros (octal to some), exponents, '_' or '+'.
[[nodiscard]] Scalar<std::int64_t> read_integer(std::string_view text);
/// An integer as above, perhaps with '.' and more digits.
[[nodiscard]] Scalar<double> read_number(std::string_view text);
/// An integer and one of ms, s, m, h without a blank.
[[nodiscard]] Scalar<std::chrono::milliseconds> read_duration(std::string_view text);
/// Bytes: an integer and one of B, KiB, MiB, GiB without a blank.
[[nodiscard]] Scalar<std::int64_t> read_size(std::string_view text);

/// In the largest unit that leaves no rest.
[[nodiscard]] std::string duration_text(std::chrono::milliseconds value);
[[nodiscard]] std::string size_text(std::int64_t bytes);
[[nodiscard]] std::string number_text(double value);

}  // namespace idproxy::config
