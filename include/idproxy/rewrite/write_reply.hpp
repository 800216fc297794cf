#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {

/// The codes that mongod answers a write with and that mean something here.
inline constexpr std::int64_t kDuplicateKey = 11000;
inline constexpr std::int64_t kInvalidIdField = 53;

/// An entry of writeErrors.
struct WriteError {
  std::int32_t index;  ///< of the statement, in the command that was sent
  std::int64_t code;
  Bytes document;  ///< the entry
};

/// mongod's answer to a batch of writes: {n, electionId, opTime, writeErrors, retriedStmtIds,
/// writeConcernError, ok, errorLabels, $clusterTime, operationTime}, or an error of the whole
/// command. Views into its message.
struct WriteReply {
  bool ok = false;
  std::int64_t code = 0;           ///< of an error of the whole command
  std::optional<std::int64_t> n;   ///< statements executed now or, by this session, earlier
  std::vector<WriteError> errors;  ///< with ok: 1; their indexes ascend
  std::size_t retried = 0;         ///< retriedStmtIds: statements that had been executed earlier

  /// `body` is the kind-0 document, of the reply to a command with so many statements. Nothing if
  /// one of these fields stands twice or has another type, `ok` is missing or neither 0 nor 1,
  /// there are more errorLabels than exist, or with ok: 1 read_write_errors() gives nothing.
  [[nodiscard]] static std::optional<WriteReply> read(Bytes body, std::size_t statements);
};

/// The entries of a `writeErrors` array. Nothing unless each is a document with an int32 index
/// below `statements` and an integer code, and their indexes ascend.
[[nodiscard]] std::optional<std::vector<WriteError>> read_write_errors(Bytes array,
                                                                       std::size_t statements);

}  // namespace idproxy::rewrite
