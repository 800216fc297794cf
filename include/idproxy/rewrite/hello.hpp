#pragma once

#include "idproxy/rewrite/classify.hpp"
#include "idproxy/rewrite/members.hpp"
#include "idproxy/wire/compression.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// Removes from `compression` in a hello or isMaster what is not in `allowed`, so that client and
/// server do not agree on a compressor that the proxy cannot read; and all of it if nothing is
/// left. A `compression` that mongod would refuse stays. With X509::refused, also removes every
/// `speculativeAuthenticate` other than a saslStart with another mechanism. `hello` is the command
/// of `message`. Returns false, and leaves `out` in an unusable state, if the hello needs no change
/// or mongod will refuse it.
[[nodiscard]] bool patch_hello_request(Bytes message, const Command& hello, X509 x509,
                                       wire::Compressors allowed, wire::PatchedMessage& out);

/// The compressors that the reply to a hello names; read_hello_reply() must have accepted
/// `message`.
[[nodiscard]] wire::Compressors agreed_compressors(Bytes message);

/// Replaces the members named in hosts, passives, arbiters, primary and me by their listeners, and
/// removes members without a listener. read_hello_reply() must have accepted `message`. Returns
/// false, and leaves `out` in an unusable state, if nothing changes.
[[nodiscard]] bool patch_hello_reply(Bytes message, const Members& members,
                                     wire::PatchedMessage& out);

}  // namespace idproxy::rewrite
