#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace idproxy {

/// The parts of "db1:27017" and "[::1]:27017".
struct HostPort {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
  bool bracketed = false;
};
/// Nothing if the text does not end with a port, 0 to 65535. The host may be anything.
[[nodiscard]] std::optional<HostPort> split_host_port(std::string_view text);

/// True of what a server may name as a member of its set, and one can connect to: "db1:27017",
/// "[::1]:27017". The host has letters, digits and ".-_" (in brackets ":.%-_"), at most 255; the
/// port is a number from 1 to 65535.
[[nodiscard]] bool is_server_address(std::string_view text);

}  // namespace idproxy
