#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Releases of MongoDB, by the maxWireVersion in a server's reply to hello. 0: it is not known.
namespace idproxy::server_release {

inline constexpr std::int32_t k4_4 = 9;
inline constexpr std::int32_t k5_0 = 13;
inline constexpr std::int32_t k6_0 = 17;
inline constexpr std::int32_t k8_0 = 25;

/// "MongoDB 6.0.27" by the version that buildInfo says; without one, "MongoDB 4.4", of one between
/// two of these "MongoDB 5.x"; empty: it is not known.
inline std::string name_of(std::int32_t wire_version, const std::string& version = {}) {
  if (!version.empty()) return "MongoDB " + version;
  if (wire_version <= 0) return {};
  if (wire_version < k4_4) return "MongoDB before 4.4";
  if (wire_version > k8_0) return "MongoDB 8.x";
  const bool is_4 = wire_version < k5_0;
  const int step = wire_version - (is_4 ? k4_4 : k5_0);
  const int major = is_4 ? 4 : 5 + step / (k6_0 - k5_0);
  const bool is_first = is_4 ? step == 0 : step % (k6_0 - k5_0) == 0;
  return "MongoDB " + std::to_string(major) + (is_first ? (is_4 ? ".4" : ".0") : ".x");
}

/// "6.0" of "6.0.27" and of "6.0.0-rc1"; empty: that is no version.
inline std::string_view series_of(std::string_view version) {
  constexpr std::size_t kLongest = 40;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_sign = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-';
  };
  const std::size_t dot = std::min(version.find('.'), version.size());
  const std::size_t end = std::min(version.find_first_of(".-", dot + 1), version.size());
  const bool has_both = dot > 0 && dot <= 3 && end > dot + 1 && end - dot <= 4;
  if (!has_both || version.size() > kLongest || !std::ranges::all_of(version, is_sign)) return {};
  const bool are_numbers = std::ranges::all_of(version.substr(0, dot), is_digit) &&
                           std::ranges::all_of(version.substr(dot + 1, end - dot - 1), is_digit);
  return are_numbers ? version.substr(0, end) : std::string_view();
}

/// What buildInfo says, if that is a version; else nothing.
inline std::string version_in(std::string_view said) {
  return series_of(said).empty() ? std::string() : std::string(said);
}

}  // namespace idproxy::server_release
