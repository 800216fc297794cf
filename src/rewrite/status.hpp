#pragma once

#include <optional>

#include "idproxy/rewrite/reply.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

/// {idproxy: "status", $db: "admin"}, a command of the proxy's own, as field_request.hpp has
/// another. The answer is the document of /status.json, and in it
///
///   {listener, server: text, …, ok: 1, $clusterTime?, operationTime?}
///
/// which listener was asked, and for which server it stands. Only here, where the server has
/// checked the client's rights, rules name their collections (docs/operations.md#status).
namespace idproxy::rewrite {

/// Returns the error if a command of the proxy's own is not for the database admin; else nothing.
[[nodiscard]] std::optional<CommandError> fault_of_database(const wire::OpMsgView& request);

/// Returns the error if the request, whose first element is `idproxy`, is not well-formed; else
/// nothing.
[[nodiscard]] std::optional<CommandError> fault_of_status_request(const wire::OpMsgView& request);

/// Writes a command that the proxy sends to the server on the client's connection to check the
/// client's rights: hostInfo, which the role clusterMonitor permits. It has the request's id, and a
/// checksum if the request has one. `out` borrows nothing from the request.
void ask_for_right(const wire::OpMsgView& request, wire::PatchedMessage& out);

/// Whether the server's reply permits it; nothing unless the reply has exactly one `ok`, 0 or 1.
[[nodiscard]] std::optional<bool> permits_status(const wire::OpMsgView& reply);

/// Appends the whole answer to `request`: the server's error, from its `reply`.
void append_status_refusal(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                           Buffer& out);
/// The same: `status`, a document, and the times of the server's `reply`.
void append_status_reply(const wire::OpMsgView& request, const wire::OpMsgView& reply, Bytes status,
                         Buffer& out);

}  // namespace idproxy::rewrite
