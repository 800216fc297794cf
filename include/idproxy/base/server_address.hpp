#pragma once

#include <string_view>

namespace idproxy {

/// True of what a server may name as a member of its set, and one can connect to: "db1:27017",
/// "[::1]:27017". The host has letters, digits and ".-_" (in brackets ":.%-_"), at most 255; the
/// port is a number from 1 to 65535.
[[nodiscard]] bool is_server_address(std::string_view text);

}  // namespace idproxy
