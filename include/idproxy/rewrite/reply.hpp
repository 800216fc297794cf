#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "idproxy/base/buffer.hpp"
#include "idproxy/wire/op_msg.hpp"

namespace idproxy::rewrite {

/// Codes that we answer with; MongoDB's own numbers and names (src/mongo/base/error_codes.yml).
enum class ErrorCode : std::int32_t {
  bad_value = 2,
  path_not_viable = 28,
  invalid_options = 72,
  operation_failed = 96,
  bson_object_too_large = 10334,
};
[[nodiscard]] std::string_view code_name(ErrorCode code);

/// A command that fails as a whole: {ok: 0, errmsg, code, codeName}.
struct CommandError {
  ErrorCode code{};
  std::string message;
};

/// A document in whose place mongod was given one that it always refuses.
struct RefusedDocument {
  std::int32_t index;  ///< in the client's batch
  ErrorCode code;
  std::string message;
};

/// {_id: []}, which every server refuses as that document's own error: "The '_id' value cannot be
/// of type array", code 53 InvalidIdField (observed, 6.0.5).
[[nodiscard]] Bytes refused_document();

/// Appends a whole OP_MSG that answers `request`; with a checksum if the request had one.
void append_error_reply(const wire::OpMsgView& request, std::int32_t request_id,
                        const CommandError& error, Buffer& out);

/// Appends `reply` (a whole OP_MSG) with the write errors of refused documents, which ascend by
/// index, replaced by ours.
/// False, and nothing appended, if it holds none of them: then the reply is as good as it is.
[[nodiscard]] bool append_reply_with_refusals(Bytes reply, std::span<const RefusedDocument> refused,
                                              Buffer& out);

}  // namespace idproxy::rewrite
