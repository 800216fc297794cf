#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {

/// The codes of mongod's write errors that the proxy treats specially.
inline constexpr std::int64_t kDuplicateKey = 11000;
inline constexpr std::int64_t kBadValue = 2;
inline constexpr std::int64_t kInvalidIdField = 53;
inline constexpr std::int64_t kCollectionUuidMismatch = 361;

/// True if a server refuses an `_id` that is an array with this code: MongoDB 4.4 with kBadValue,
/// later ones with kInvalidIdField (observed, 4.4.2, 5.0.4, 6.0.5).
[[nodiscard]] constexpr bool refuses_id(std::int64_t code) {
  return code == kInvalidIdField || code == kBadValue;
}

/// An entry of writeErrors.
struct WriteError {
  std::int32_t index;  ///< index of the statement in the command that was sent
  std::int64_t code;
  Bytes document;  ///< the whole entry
};

/// mongod's reply to a batch of writes: {n, electionId, opTime, writeErrors, upserted, nModified,
/// retriedStmtIds, writeConcernError, ok, errorLabels, $clusterTime, operationTime}, or an error of
/// the whole command. An insert's reply has neither `upserted` nor `nModified`. Views into its
/// message.
struct WriteReply {
  bool ok = false;
  std::int64_t code = 0;           ///< the code of an error of the whole command
  std::optional<std::int64_t> n;   ///< statements executed now or, by this session, earlier
  std::vector<WriteError> errors;  ///< with ok: 1; their indexes ascend
  /// Statements of an update that inserted a document, with ok: 1; ascending.
  std::vector<std::int32_t> upserted;
  std::size_t retried = 0;  ///< how many statements had been executed earlier (retriedStmtIds)

  /// Reads `body`, the kind-0 document of the reply to a command with this number of statements.
  /// Returns nothing if one of these fields occurs twice or has another type, `ok` is missing or
  /// neither 0 nor 1, there are more errorLabels than exist, or with ok: 1 read_write_errors()
  /// returns nothing or the entries of `upserted` are not {index, _id} with ascending indexes.
  [[nodiscard]] static std::optional<WriteReply> read(Bytes body, std::size_t statements);
};

/// Reads the entries of a `writeErrors` array. Returns nothing unless each is a document with an
/// int32 index below `statements` and an integer code, and the indexes ascend.
[[nodiscard]] std::optional<std::vector<WriteError>> read_write_errors(Bytes array,
                                                                       std::size_t statements);

}  // namespace idproxy::rewrite
