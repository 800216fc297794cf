#pragma once

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/members.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// Takes `compression` out of a hello or isMaster, so that nothing is negotiated that we cannot
/// read. A `compression` that mongod would refuse stays. With X509::refused takes out each
/// `speculativeAuthenticate` but for a saslStart of another mechanism. False if the hello needs no
/// change, or mongod will refuse it: then `out` is not to be used. `hello` is the command of
/// `message`.
[[nodiscard]] bool patch_hello_request(Bytes message, const Command& hello, X509 x509,
                                       wire::PatchedMessage& out);

/// Has hosts, passives, arbiters, primary and me name our listeners, and leaves out members that
/// have none. `message` is one that read_hello_reply() could read. False if that changes nothing:
/// then `out` is not to be used.
[[nodiscard]] bool patch_hello_reply(Bytes message, const Members& members,
                                     wire::PatchedMessage& out);

}  // namespace idproxy::rewrite
