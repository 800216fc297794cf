#pragma once

#include <cstdint>

#include "idproxy/base/bytes.hpp"

namespace idproxy::rewrite {

/// Whether a server refuses what a connection without a login asks for (security.authorization).
enum class Logins : std::uint8_t {
  unknown,       ///< it was not asked yet, or has answered something else: presume neither
  enforced,      ///< it has refused, with error 13
  not_enforced,  ///< it has answered
};

/// What a server enforces, by its reply (OP_MSG) to a command that needs some privilege, from a
/// connection without a login.
[[nodiscard]] Logins read_logins(Bytes reply);

}  // namespace idproxy::rewrite
