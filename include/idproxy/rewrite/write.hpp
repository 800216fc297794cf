#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "idproxy/base/buffer.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/ids/values.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/request.hpp"
#include "idproxy/wire/op_msg.hpp"

/// A model of write commands. A command has statements (those of an insert are its documents),
/// which are identified by their index in the client's batch. A statement has places where a value
/// may be missing.
namespace idproxy::rewrite {

struct Assignment;

/// A place in a statement that gets a generated value.
struct Given {
  std::int32_t statement;
  std::uint16_t assignment;  ///< index in the plan
  std::uint32_t value;       ///< index in GivenValues::values[assignment]
};

/// The sequences that the values of one assignment come from (ids::Sequences).
struct GivenSequences {
  std::vector<std::shared_ptr<ids::Source>> all;  ///< each once
  std::vector<std::uint32_t> of_value;            ///< by value: an index in `all`

  /// Indexes in `all`.
  using Known = std::unordered_map<const ids::Source*, std::uint32_t>;
  /// Notes that the next value comes from this sequence. `known`: those in `all`.
  void add_value(std::shared_ptr<ids::Source> sequence, Known& known);
};

/// The values that the statements of one command get.
struct GivenValues {
  std::vector<ids::Values> values;  ///< by assignment: all drawn values, also those that collided
  std::vector<Given> given;         ///< sorted by statement, then by rule in file order
  std::vector<std::size_t> wanted;  ///< by assignment: how many values the first send needs
  /// By assignment; empty if no strategy of the plan has sequences.
  std::vector<GivenSequences> sequences{};
  std::vector<UpsertParts> upserts{};  ///< by statement; empty for an insert

  /// The values of this statement; empty if it gets none.
  [[nodiscard]] std::span<const Given> of(std::int32_t statement) const;
  [[nodiscard]] bool is_multi(std::int32_t statement) const {
    return !upserts.empty() && upserts[static_cast<std::size_t>(statement)].multi;
  }
  /// Keeps the memory.
  void clear();
  /// Memory of the values and of what is noted about them, in bytes.
  [[nodiscard]] std::size_t capacity() const;
};

/// Values, or something else, that the store must be asked for before a write can go on.
struct Need {
  const Assignment* assignment;        ///< the rule
  ids::StoreSource* source = nullptr;  ///< whom to ask
  std::size_t count = 0;
  std::optional<ids::Error> error{};  ///< there are none: do not ask
};

/// The fields of a command's body that determine how its statements may be sent again.
struct WriteOptions {
  bool ordered = true;
  bool in_transaction = false;
  bool has_txn_number = false;
  bool acknowledged = true;  ///< false with writeConcern {w: 0}: replies say {n: 0}
  bool in_turn = false;      ///< each command is sent as an ordered one, whatever `ordered` says
  std::optional<std::int64_t> max_time_ms;  ///< for the whole command; nothing: no limit
  std::int32_t stmt_id = 0;                 ///< number of the first statement
  std::vector<std::int32_t> stmt_ids;       ///< number of each statement, if the client sent them

  /// Returns nothing if one of these fields occurs twice or has a form that mongod refuses or might
  /// read differently. Such a command is sent only once, unchanged.
  [[nodiscard]] static std::optional<WriteOptions> read(Bytes body);
  /// True if the server stops at the first error of a command.
  [[nodiscard]] bool stops() const { return ordered || in_transaction || in_turn; }
  /// True if each of the `statements` in the batch has a statement number.
  [[nodiscard]] bool numbers(std::size_t statements) const;
  [[nodiscard]] std::int32_t number_of(std::int32_t statement) const {
    return stmt_ids.empty() ? stmt_id + statement : stmt_ids[static_cast<std::size_t>(statement)];
  }
};

/// Returns the options of a command if its statements may be sent in several commands; else
/// nothing.
[[nodiscard]] std::optional<WriteOptions> divisible(const wire::OpMsgView& command,
                                                    std::size_t statements);

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
  /// Documents to replace by refused_document(), ascending by index, in addition to those that the
  /// command's plan makes impossible.
  std::span<const RefusedDocument> refused{};
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
  std::vector<Forwarded> forwarded;  ///< if it is not `failed`
};

/// Appends `count` new values for an assignment to `out`.
[[nodiscard]] ids::Draw draw(const Assignment& assignment, std::size_t count, ids::Values& out);
/// The error with which a whole command fails if it cannot get its values.
/// `ns`: "db.collection".
[[nodiscard]] CommandError no_values(const wire::OpMsgView& write, std::string_view ns,
                                     const Assignment& assignment, const ids::Error& error);
/// The text of that error. `ns`: "db.collection".
[[nodiscard]] std::string no_value_text(std::string_view ns, const Assignment& assignment,
                                        const ids::Error& error);

/// Limits for one command: the number of its values, and the bytes of its message together with the
/// values. A command beyond them fails with too_large().
inline constexpr std::size_t kMostValues = 2'000'000;  // 20 for each of 100,000 documents
inline constexpr std::size_t kMostWithIds = 2 * static_cast<std::size_t>(wire::kMaxMessageSize);

/// The error with which a write fails if its values make it too large for a message.
[[nodiscard]] CommandError too_large();
/// Gives each place in `given` the next value of its rule, in the order of the statements, and sets
/// given.wanted.
void number_values(const Plan& plan, GivenValues& given);

}  // namespace idproxy::rewrite
