#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// Converts texts of scalars to values, and values to texts for messages.
namespace idproxy {

/// The result of reading a text.
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

/// Decimal digits with an optional '-'. No leading zeros (some readers take them for octal), '+',
/// '_' or exponents.
[[nodiscard]] Scalar<std::int64_t> read_integer(std::string_view text);
/// An integer as above, optionally with '.' and more digits.
[[nodiscard]] Scalar<double> read_number(std::string_view text);
/// An integer immediately followed by ms, s, m or h.
[[nodiscard]] Scalar<std::chrono::milliseconds> read_duration(std::string_view text);
/// An integer immediately followed by B, KiB, MiB or GiB; returns bytes.
[[nodiscard]] Scalar<std::int64_t> read_size(std::string_view text);

/// The value in the largest unit that divides it.
[[nodiscard]] std::string duration_text(std::chrono::milliseconds value);
[[nodiscard]] std::string size_text(std::int64_t bytes);
[[nodiscard]] std::string number_text(double value);

}  // namespace idproxy
