#include "app/views/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "idproxy/base/words.hpp"

namespace idproxy::app::views {
namespace {

constexpr const char* kUnknown = "-";
constexpr double kMostCounted = 9e18;  // has room in 64 bits
constexpr double kDaySeconds = 86400;
constexpr double kLongest = 3e9;  // seconds, 95 years

/// With three digits, or as many as are in front of the point.
std::string three_digits(double number) {
  if (number < 9.995) return fmt::format("{:.2g}", number);
  if (number < 99.95) return fmt::format("{:.3g}", number);
  return with_commas(static_cast<std::uint64_t>(std::llround(number)));
}

std::string time_text(std::optional<double> time, const char* format) {
  constexpr double kLast = 253402300799;  // of the year 9999
  if (!time || *time < 0 || *time > kLast) return kUnknown;
  const auto seconds = static_cast<std::time_t>(*time);
  std::tm fields{};
  if (::localtime_r(&seconds, &fields) == nullptr) return kUnknown;
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), format, &fields)};
}

}  // namespace

std::string count_text(std::optional<double> count) {
  if (!count) return kUnknown;
  const auto whole = static_cast<std::uint64_t>(std::min(std::abs(*count), kMostCounted));
  return (*count < 0 && whole > 0 ? "-" : "") + with_commas(whole);
}

std::string left_text(std::optional<double> count) {
  constexpr double kPlenty = 1e15;
  return count.value_or(0) > kPlenty ? "> 10^15" : count_text(count);
}

std::string rate_text(std::optional<double> rate) {
  if (!rate) return kUnknown;
  const double shown = std::clamp(*rate, 0.0, kMostCounted);
  if (shown == 0) return "0";
  return shown < 99.95 ? fmt::format("{:.1f}", shown) : count_text(std::round(shown));
}

std::string latency_text(std::optional<double> seconds) {
  if (!seconds || *seconds < 0) return kUnknown;
  if (*seconds < 1) return three_digits(*seconds * 1000) + " ms";
  return *seconds < 60 ? three_digits(*seconds) + " s" : age_text(seconds);
}

std::string age_text(std::optional<double> seconds) {
  if (!seconds) return kUnknown;
  const double shown = std::clamp(*seconds, 0.0, kLongest);
  if (shown < kDaySeconds) {
    return seconds_text(std::chrono::nanoseconds(static_cast<std::int64_t>(shown * 1e9)));
  }
  const auto days = static_cast<std::int64_t>(shown / kDaySeconds);
  const auto hours = static_cast<std::int64_t>(std::fmod(shown, kDaySeconds) / 3600);
  return fmt::format("{} d", days) + (hours > 0 ? fmt::format(" {} h", hours) : "");
}

std::string short_age_text(std::optional<double> seconds) {
  const std::string text = age_text(seconds);
  const std::size_t unit = text.find(' ');
  return text.substr(0, unit == std::string::npos ? unit : text.find(' ', unit + 1));
}

std::string bytes_text(std::optional<double> bytes) {
  if (!bytes || *bytes < 0) return kUnknown;
  double shown = *bytes;
  for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
    if (shown < 1024) return three_digits(shown) + " " + unit;
    shown /= 1024;
  }
  return three_digits(std::min(shown, kMostCounted)) + " TiB";
}

std::string date_text(std::optional<double> time) {
  return time_text(time, "%Y-%m-%d %H:%M");
}

std::string clock_text(std::optional<double> time) {
  return time_text(time, "%H:%M:%S");
}

}  // namespace idproxy::app::views
