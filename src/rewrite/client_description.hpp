#pragma once

#include <optional>
#include <string_view>

#include "idproxy/rewrite/command.hpp"
#include "idproxy/rewrite/memory.hpp"

/// Reads who a client says it is. Nothing here is checked by the server before it is shown: names
/// are for operators, and grant nothing.
namespace idproxy::rewrite {

/// Returns the user after the command, if it changes: that of a saslStart with SCRAM (RFC 5802,
/// the attribute `n`), "" after a logout or with another mechanism. Borrows from the message.
[[nodiscard]] std::optional<std::string_view> user_after(const Command& command);

/// Notes the names in a hello: of the application and the driver (`client`, as in the MongoDB
/// Handshake specification), and of the user (`speculativeAuthenticate`). Later ones replace
/// earlier ones.
void note_names(Bytes hello, ConnectionMemory& memory);

}  // namespace idproxy::rewrite
