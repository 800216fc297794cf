#pragma once

#include <optional>
#include <string_view>

#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// What a whole message turned out to be.
enum class HelloRequest {
  other,     ///< no hello, or one that mongod will refuse: to be relayed
  as_it_is,  ///< a hello that needs no change
  patched,   ///< a hello; `out` holds it without its `compression`
};

/// Takes `compression` out of a hello or isMaster (OP_MSG or OP_QUERY), so that nothing is
/// negotiated that we cannot read. A `compression` that mongod would refuse stays.
[[nodiscard]] HelloRequest patch_hello_request(Bytes message, wire::PatchedMessage& out);

/// What a reply to hello says of the server (OP_MSG or OP_REPLY).
struct HelloReply {
  std::string_view set_name;  ///< empty: not a member of a replica set
  std::string_view me;        ///< host:port under which the set knows it
};
[[nodiscard]] std::optional<HelloReply> read_hello_reply(Bytes message);

}  // namespace idproxy::rewrite
