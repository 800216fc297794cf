#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/request.hpp"
#include "idproxy/wire/op_msg.hpp"

/// What all write commands have in common, from their options to the reasons for which they fail.
namespace idproxy::rewrite {

/// A collection that a command names by its UUID.
struct NamedCollection {
  std::string_view ns;  ///< "db.collection"
  ids::CollectionUuid uuid;
};

/// A command that carries some statements of a client's batch.
struct WritePart {
  std::span<const std::int32_t> statements;  ///< indexes in the batch, ascending
  const WriteOptions* options;               ///< of the client's command; null: keep all its fields
  /// True for the first command of the batch: only that one keeps the fields that begin a
  /// transaction.
  bool first;
  std::optional<std::int64_t> max_time_ms;  ///< the rest of the client's maxTimeMS
  std::int32_t request_id;
  /// A document whose elements take the place of the client's fields of the same names; or empty.
  Bytes instead{};
  std::span<const NamedCollection> named{};
  /// Documents to replace by refused_document(), ascending by index, in addition to those that the
  /// command's plan makes impossible.
  std::span<const RefusedDocument> refused{};
  bool numbered = true;  ///< says the statements' numbers; false: as the client's command does
};

/// The result of scanning one write command.
struct ScanResult {
  enum class Kind {
    unchanged,  ///< forward it unchanged: no values to assign, or mongod will refuse it
    assigned,   ///< draw the values, then write the command with them
    failed,     ///< send nothing; answer with `error`
  };
  Kind kind = Kind::unchanged;
  CommandError error;
  std::size_t statements = 0;
  std::size_t size = 0;                     ///< bytes of the message without the new values
  std::vector<RefusedDocument> refused;     ///< documents to replace by refused_document()
  const Assignment* driver_made = nullptr;  ///< an `_id` rule that found only driver-made ObjectIds
  /// A rule whose field has a zero that the rule leaves, as `assign: missing-or-zero` would not.
  const Assignment* leaves_zero = nullptr;
  std::vector<Forwarded> forwarded;   ///< if it is not `failed`
  std::vector<TakenAway> taken_away;  ///< the same
};

/// Why values cannot be assigned if the driver encrypts one of their fields, or one around or below
/// it, as the command's encryptionInformation says (Queryable Encryption); nothing if it does not.
[[nodiscard]] std::optional<CommandError> fault_of_encryption(const WriteRequest& write,
                                                              const GivenValues& given);

/// The error with which a whole command fails if it cannot get its values.
/// Counts the write as refused.
[[nodiscard]] CommandError no_values(const WriteCommand& write, const Assignment& assignment,
                                     const ids::Error& error);
/// The text of that error.
[[nodiscard]] std::string no_value_text(const Assignment& assignment, const ids::Error& error);

/// Limits for one command: the number of its values, and the bytes of its message together with the
/// values. A command beyond them fails with too_large().
inline constexpr std::size_t kMostValues = 2'000'000;  // 20 for each of 100,000 documents
inline constexpr std::size_t kMostWithIds = 2 * static_cast<std::size_t>(wire::kMaxMessageSize);

/// The error with which a write fails if its values make it too large for a message.
[[nodiscard]] CommandError too_large();

}  // namespace idproxy::rewrite
