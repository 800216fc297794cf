#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "idproxy/base/buffer.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

/// Codes that we answer with; MongoDB's own numbers and names (src/mongo/base/error_codes.yml).
enum class ErrorCode : std::int32_t {
  bad_value = 2,
  host_unreachable = 6,
  unauthorized = 13,
  authentication_failed = 18,
  invalid_bson = 22,
  path_not_viable = 28,
  max_time_ms_expired = 50,
  invalid_options = 72,
  shutdown_in_progress = 91,
  operation_failed = 96,
  write_conflict = 112,
  bson_object_too_large = 10334,
};
[[nodiscard]] std::string_view code_name(ErrorCode code);
/// Of a command that gets no values.
[[nodiscard]] ErrorCode code_of(ids::Errc why);

/// A command that fails as a whole: {ok: 0, errmsg, code, codeName, errorLabels: [label]}.
struct CommandError {
  ErrorCode code{};
  std::string message;
  std::string_view label{};    ///< static; empty: none
  bool repeats_write = false;  ///< adds kNoWritesPerformed
};
inline constexpr std::string_view kTransientTransactionError = "TransientTransactionError";
inline constexpr std::string_view kRetryableWriteError = "RetryableWriteError";
/// To what may be a driver's second attempt at a write, and has not been sent on: the driver raises
/// the error of the first one, of which it is not known what became, instead of this one, which
/// would sound as if nothing were stored (retryable writes specification, "originalError").
inline constexpr std::string_view kNoWritesPerformed = "NoWritesPerformed";

/// A document in whose place mongod was given one that it always refuses.
struct RefusedDocument {
  std::int32_t index;  ///< in the client's batch
  ErrorCode code;
  std::string message;
};

/// {_id: []}, which every server refuses as that document's own error: "The '_id' value cannot be
/// of type array", code 53 InvalidIdField (observed, 6.0.5).
[[nodiscard]] Bytes refused_document();

/// Appends a whole message that answers `request`, a whole OP_MSG or OP_QUERY, which need not be
/// well-formed: an OP_MSG, with a checksum if the request had one, or an OP_REPLY.
void append_error_reply(Bytes request, std::int32_t request_id, const CommandError& error,
                        Buffer& out);

/// True of a whole message if a driver may have sent the same write before: it has a txnNumber, and
/// is not part of a transaction.
[[nodiscard]] bool may_repeat_write(Bytes request);

/// The same for a request that has not been sent on: ShutdownInProgress. The label has a driver try
/// again what it may: RetryableWriteError, or inside a transaction TransientTransactionError, but
/// none for hello. False, and nothing is appended, if nobody waits for an answer, or the request
/// cannot be read.
[[nodiscard]] bool append_shutdown_reply(Bytes request, std::int32_t request_id, Buffer& out);
/// The same in an OP_MSG for a hello that waits for news, or streams them.
void append_shutdown_reply_to(std::int32_t response_to, std::int32_t request_id, Buffer& out);

/// Appends `reply`, whose insert the server has undone with its transaction, as a top-level error
/// whose label TransientTransactionError makes a driver's withTransaction begin anew. It is the
/// top-level label that does (observed: beside ok: 1 it does not). Times are kept.
void append_undone_reply(const wire::OpMsgView& reply, std::int32_t response_to,
                         const CommandError& error, Buffer& out);

/// Appends `reply` as it is, in answer to another request.
void append_readdressed(const wire::OpMsgView& reply, std::int32_t response_to, Buffer& out);
/// The same for the failure of a command, to a client whose request has been sent as more than one:
/// without NoWritesPerformed, which is not true of the others.
void append_failure_of_later(const wire::OpMsgView& reply, std::int32_t response_to, Buffer& out);

}  // namespace idproxy::rewrite
