#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/server_codes.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

/// The code for a command whose values cannot be generated.
[[nodiscard]] ErrorCode code_of(ids::Errc why);

/// The error of a command that fails as a whole: {ok: 0, errmsg, code, codeName, errorLabels:
/// [label], <details>}.
struct CommandError {
  ErrorCode code{};
  std::string message;
  std::string_view label{};    ///< a string with static lifetime; empty: none
  bool repeats_write = false;  ///< adds kNoWritesPerformed
  std::string details{};       ///< further fields, as BSON elements
};
inline constexpr std::string_view kTransientTransactionError = "TransientTransactionError";
inline constexpr std::string_view kRetryableWriteError = "RetryableWriteError";
/// A label for the error of a write that was not sent to the server but may be a driver's second
/// attempt. It makes the driver raise the error of the first attempt, whose outcome is unknown,
/// instead of this error, which would suggest that nothing was stored (retryable writes
/// specification, "originalError").
inline constexpr std::string_view kNoWritesPerformed = "NoWritesPerformed";

/// A document that the proxy replaces by one that mongod always refuses, and the error to report
/// for it.
struct RefusedDocument {
  std::int32_t index;  ///< in the client's batch
  ErrorCode code;
  std::string message;
  std::string details{};  ///< further fields of the error, as BSON elements
};

/// {_id: []}: every server refuses it with a write error for this document alone: "The '_id' value
/// cannot be of type array", code 53 InvalidIdField (observed, 6.0.5).
[[nodiscard]] Bytes refused_document();

/// Appends a whole message that answers `request`: an OP_MSG, with a checksum if the request had
/// one, or an OP_REPLY. `request` is a whole OP_MSG or OP_QUERY, but need not be well-formed.
void append_error_reply(Bytes request, std::int32_t request_id, const CommandError& error,
                        Buffer& out);

/// True if a driver may have sent the write in `request`, a whole message, before: it has a
/// txnNumber and is not part of a transaction.
[[nodiscard]] bool may_repeat_write(Bytes request);

/// Like append_error_reply(), for a request that was not sent to the server. The label of `error`
/// does not count: this function adds the one that tells drivers what they may try again:
/// TransientTransactionError inside a transaction, except for commitTransaction and
/// abortTransaction; none for hello; else RetryableWriteError. Returns false and appends nothing if
/// the client does not wait for an answer, or if the request is not a readable command in an OP_MSG
/// or OP_QUERY.
[[nodiscard]] bool append_unsent_reply(Bytes request, std::int32_t request_id, CommandError error,
                                       Buffer& out);
/// append_unsent_reply() with the error ShutdownInProgress.
[[nodiscard]] bool append_shutdown_reply(Bytes request, std::int32_t request_id, Buffer& out);
/// Appends ShutdownInProgress, without labels, as an OP_MSG that answers an awaitable or streaming
/// hello.
void append_shutdown_reply_to(std::int32_t response_to, std::int32_t request_id, Buffer& out);

/// Appends `error` as the answer to an insert that the server has undone together with its
/// transaction. The error is a top-level one, because only there the label
/// TransientTransactionError makes a driver's withTransaction start again (observed: beside ok: 1
/// it does not). Keeps electionId, recoveryToken and the times of `reply`.
void append_undone_reply(const wire::OpMsgView& reply, std::int32_t response_to,
                         const CommandError& error, Buffer& out);

/// Appends `reply`, the server's error for a command that asks about the client's rights, as the
/// answer to `request`, which was not sent. It stays unchanged, because drivers read more of it
/// than its code. Only the text about a missing right gets `needed` in front, because it names a
/// command that the client has not sent; and a write of a session gets, with a transient error,
/// the label by which its driver sends it again: the server had no reason to add one.
void append_refusal(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                    std::string_view needed, Buffer& out);
/// `needed`, of those who want values.
inline constexpr std::string_view kRightNeeded =
    "mongo-idproxy: values are for those who may insert into the collection; the server says: ";

/// True if a reply with this code says that the server does not know this field of the command.
[[nodiscard]] bool rejects(std::string_view field, const wire::OpMsgView& reply, std::int64_t code);

/// Appends `reply` unchanged, as the answer to another request.
void append_readdressed(const wire::OpMsgView& reply, std::int32_t response_to, Buffer& out);
/// Appends `reply`, the failure of a command, as the answer to a client's request that was sent as
/// several commands. Leaves the label NoWritesPerformed out, because it is not true for the other
/// commands.
void append_failure_of_later(const wire::OpMsgView& reply, std::int32_t response_to, Buffer& out);

}  // namespace idproxy::rewrite
