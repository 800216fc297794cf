#pragma once

#include <cstdint>
#include <string>

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

}  // namespace idproxy::server_release
