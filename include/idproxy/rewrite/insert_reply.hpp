#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {

/// The codes that mongod answers an insert with and that mean something here.
inline constexpr std::int64_t kDuplicateKey = 11000;
inline constexpr std::int64_t kInvalidIdField = 53;

/// mongod's answer to an insert: {n, electionId, opTime, writeErrors, retriedStmtIds,
/// writeConcernError, ok, errorLabels, $clusterTime, operationTime}, or an error of the whole
/// command. Views into its message.
struct InsertReply {
  bool ok = false;
  std::int64_t code = 0;          ///< of an error of the whole command
  std::optional<std::int64_t> n;  ///< documents stored now or, by this session, earlier
  Bytes write_errors;             ///< the array's value; empty if there is none
  std::size_t retried = 0;        ///< retriedStmtIds: statements that had been executed earlier

  /// `body` is the kind-0 document. Nothing if one of these fields stands twice or has another
  /// type, `ok` is missing or neither 0 nor 1, or there are more errorLabels than exist.
  [[nodiscard]] static std::optional<InsertReply> read(Bytes body);
};

/// An entry of writeErrors.
struct WriteError {
  std::int32_t index;  ///< of the document, in the command that was sent
  std::int64_t code;
  Bytes document;  ///< the entry
};

/// The entries of a `writeErrors` array. Nothing unless each is a document with an int32 index
/// below `documents` and an integer code, and their indexes ascend.
[[nodiscard]] std::optional<std::vector<WriteError>> read_write_errors(Bytes array,
                                                                       std::size_t documents);

}  // namespace idproxy::rewrite
