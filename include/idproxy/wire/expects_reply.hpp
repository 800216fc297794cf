#pragma once

#include "idproxy/wire/msg_header.hpp"

namespace idproxy::wire {

/// True if mongod answers the message. `front`: what is there of it, of an OP_MSG its flags at
/// least.
[[nodiscard]] bool expects_reply(const MsgHeader& header, Bytes front);

/// True for an OP_QUERY whose answer may be any number of OP_REPLYs without a further request (flag
/// Exhaust; servers before 5.1).
[[nodiscard]] bool is_legacy_exhaust(const MsgHeader& header, Bytes front);

}  // namespace idproxy::wire
