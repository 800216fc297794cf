#pragma once

#include <string>
#include <string_view>

namespace idproxy {

/// SHA-256 in 64 hexadecimal digits (FIPS 180-4).
[[nodiscard]] std::string sha256(std::string_view text);

}  // namespace idproxy
