#pragma once

#include "idproxy/wire/msg_header.hpp"

namespace idproxy::wire {

/// True if mongod answers the message. `front`: the bytes of it received so far; for an OP_MSG they
/// must include the flags.
[[nodiscard]] bool expects_reply(const MsgHeader& header, Bytes front);

/// True for an OP_QUERY that servers may answer with any number of OP_REPLYs without further
/// requests (flag Exhaust; servers before 5.1). `front` as above, including the flags.
[[nodiscard]] bool is_legacy_exhaust(const MsgHeader& header, Bytes front);

}  // namespace idproxy::wire
