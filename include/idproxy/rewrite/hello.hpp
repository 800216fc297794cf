#pragma once

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/members.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// What a whole message turned out to be.
enum class HelloRequest {
  other,     ///< no hello: to be relayed
  as_it_is,  ///< a hello that needs no change, or that mongod will refuse
  patched,   ///< a hello; `out` holds it without what it is not to ask for
};

/// Takes `compression` out of a hello or isMaster (OP_MSG or OP_QUERY), so that nothing is
/// negotiated that we cannot read. A `compression` that mongod would refuse stays. With
/// X509::refused takes out each `speculativeAuthenticate` but for a saslStart of another mechanism.
[[nodiscard]] HelloRequest patch_hello_request(Bytes message, X509 x509, wire::PatchedMessage& out);

/// Has hosts, passives, arbiters, primary and me name our listeners, and leaves out members that
/// have none. `message` is one that read_hello_reply() could read. False if that changes nothing:
/// then `out` is not to be used.
[[nodiscard]] bool patch_hello_reply(Bytes message, const Members& members,
                                     wire::PatchedMessage& out);

}  // namespace idproxy::rewrite
