#pragma once

#include <optional>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/command.hpp"
#include "idproxy/rewrite/reply.hpp"

/// Logging in by a client certificate, which X509::refused is about. It takes (observed, 6.0.5) one
/// of these, in an OP_MSG or an OP_QUERY, also without asking for a reply:
///
///   {authenticate: any, mechanism: "MONGODB-X509", user?, $db: "$external"}
///   {hello | isMaster | ismaster: any, speculativeAuthenticate: {authenticate: any, mechanism: …}}
///
/// saslStart with that mechanism is refused by that server; we do not count on it. Nor on what a
/// server with net.wireObjectCheck off makes of malformed BSON: it logs in.
namespace idproxy::rewrite {

/// Where X509::refused applies: why a message does not reach the server, or nothing. `command`:
/// what could be found in it. A hello has only to be readable: speculativeAuthenticate is taken out
/// of it.
[[nodiscard]] std::optional<CommandError> fault_of_login(const std::optional<Command>& command);

/// False for a speculativeAuthenticate that is a saslStart of one mechanism, another one.
[[nodiscard]] bool may_use_certificate(const bson::Element& speculative_authenticate);

}  // namespace idproxy::rewrite
