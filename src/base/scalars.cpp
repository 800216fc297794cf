#include "idproxy/base/scalars.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>

namespace idproxy {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};

// Largest first, for in_largest_unit().
constexpr std::array<Unit, 4> kTimes{{{"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};
constexpr std::array<Unit, 4> kSizes{
    {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}};

/// The number of digits at the front; 0 if they begin with a superfluous zero.
std::size_t digits_at_front(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  return end > 1 && text[0] == '0' ? 0 : end;
}

Scalar<std::int64_t> with_unit(std::string_view text, std::span<const Unit> units) {
  const std::size_t digits = digits_at_front(text);
  if (digits == 0) return {};
  if (digits == text.size()) return {Reading::no_unit, 0};
  const auto number = read_integer(text.substr(0, digits));
  for (const Unit& unit : units) {
    if (text.substr(digits) != unit.name) continue;
    const bool fits = number.reading == Reading::ok &&
                      number.value <= std::numeric_limits<std::int64_t>::max() / unit.factor;
    if (!fits) return {Reading::too_large, 0};
    return {Reading::ok, number.value * unit.factor};
  }
  return {};
}

std::string in_largest_unit(std::int64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    const bool divides = value % unit.factor == 0 && value != 0;
    if (divides) return std::to_string(value / unit.factor) + std::string(unit.name);
  }
  return "0" + std::string(units.back().name);
}

}  // namespace

Scalar<std::int64_t> read_integer(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits_at_front(digits) != digits.size()) return {};
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return {Reading::too_large, 0};
  return {Reading::ok, value};
}

Scalar<double> read_number(std::string_view text) {
  const std::string_view unsigned_text = text.starts_with('-') ? text.substr(1) : text;
  const std::size_t whole = digits_at_front(unsigned_text);
  if (whole == 0) return {};
  const std::string_view rest = unsigned_text.substr(whole);
  const bool fraction = rest.size() > 1 && rest[0] == '.' &&
                        rest.substr(1).find_first_not_of("0123456789") == std::string_view::npos;
  if (!rest.empty() && !fraction) return {};
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return {Reading::too_large, 0};
  return {Reading::ok, value};
}

Scalar<std::chrono::milliseconds> read_duration(std::string_view text) {
  const auto scalar = with_unit(text, kTimes);
  return {scalar.reading, std::chrono::milliseconds(scalar.value)};
}

Scalar<std::int64_t> read_size(std::string_view text) {
  return with_unit(text, kSizes);
}

std::string duration_text(std::chrono::milliseconds value) {
  return in_largest_unit(value.count(), kTimes);
}

std::string size_text(std::int64_t bytes) {
  return in_largest_unit(bytes, kSizes);
}

std::string number_text(double value) {
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

}  // namespace idproxy
