#pragma once

#include <optional>
#include <string_view>

#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/command.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/reply.hpp"

/// Logins: whether they have succeeded; and those by client certificate, for X509::refused. Such a
/// login takes (observed, 6.0.5) one of these commands, in an OP_MSG or an OP_QUERY, even in an
/// OP_MSG that asks for no reply:
///
///   {authenticate: any, mechanism: "MONGODB-X509", user?, $db: "$external"}
///   {hello | isMaster | ismaster: any, speculativeAuthenticate: {authenticate: any, mechanism: …}}
///
/// That server refuses saslStart with this mechanism, but the proxy does not rely on it. Nor does
/// it rely on malformed BSON being refused: a server with net.wireObjectCheck off accepts it and
/// logs the client in.
namespace idproxy::rewrite {

/// With X509::refused: returns the error if a message must not reach the server; else nothing.
/// `command`: the result of Command::find() for the message. A hello only has to be readable,
/// because patch_hello_request() removes speculativeAuthenticate from it.
[[nodiscard]] std::optional<CommandError> fault_of_login(const std::optional<Command>& command);

/// False for a speculativeAuthenticate that is a saslStart with exactly one mechanism, which is not
/// MONGODB-X509.
[[nodiscard]] bool may_use_certificate(const bson::Element& speculative_authenticate);

/// True for saslStart, saslContinue, authenticate and logout, after which the connection's user may
/// be another one. So may it be after hello (speculativeAuthenticate).
[[nodiscard]] bool is_login(std::string_view command);

/// Notes what the server has answered (OP_MSG or OP_REPLY) to such a command, and to a hello. False
/// if the answer cannot be read.
[[nodiscard]] bool note_login(std::string_view command, Bytes reply, ConnectionMemory& memory);

// ---- who the client says it is. Nothing of it is checked by the server before it is shown: names
// are for operators, and grant nothing.

/// Returns the user after the command, if it changes: that of a saslStart with SCRAM (RFC 5802,
/// the attribute `n`), "" after a logout or with another mechanism. Borrows from the message.
[[nodiscard]] std::optional<std::string_view> user_after(const Command& command);

/// Notes the names in a hello: of the application and the driver (`client`, as in the MongoDB
/// Handshake specification), and of the user (`speculativeAuthenticate`). Later ones replace
/// earlier ones.
void note_names(Bytes hello, ConnectionMemory& memory);

}  // namespace idproxy::rewrite
