#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/base/buffer.hpp"
#include "idproxy/ids/values.hpp"
#include "idproxy/wire/op_msg.hpp"

/// The model of a write command: it has statements (of an insert: its documents), known by their
/// index in the client's batch, and a statement has places where a value may be missing.
namespace idproxy::rewrite {

/// A place of a statement that has a value of ours.
struct Given {
  std::int32_t statement;
  std::uint16_t assignment;  ///< in the plan
  std::uint32_t value;       ///< in GivenValues::values[assignment]
};

/// What the statements of one command have been given.
struct GivenValues {
  std::vector<ids::Values>
      values;                ///< by assignment: all that were drawn, also those that collided
  std::vector<Given> given;  ///< by statement, then in file order
  std::vector<std::size_t> wanted;  ///< by assignment: how many values the command needs at first
};

/// The fields of a command's body that decide how its statements may be sent again.
struct WriteOptions {
  bool ordered = true;
  bool in_transaction = false;
  bool has_txn_number = false;
  bool acknowledged = true;                 ///< not writeConcern {w: 0}: its reply says {n: 0}
  std::optional<std::int64_t> max_time_ms;  ///< of the command in all; nothing: no limit
  std::int32_t stmt_id = 0;                 ///< of the first statement
  std::vector<std::int32_t> stmt_ids;       ///< of each statement, if the client sent them

  /// Nothing if one of them stands twice or has a form that mongod refuses, or could read in
  /// another way: such a command is sent once, as it is.
  [[nodiscard]] static std::optional<WriteOptions> read(Bytes body);
  /// Of a batch of `statements`: each has a statement number, and that of `statement` is …
  [[nodiscard]] bool numbers(std::size_t statements) const;
  [[nodiscard]] std::int32_t number_of(std::int32_t statement) const {
    return stmt_ids.empty() ? stmt_id + statement : stmt_ids[static_cast<std::size_t>(statement)];
  }
};

/// The options of a command whose statements may go in several commands, else nothing.
[[nodiscard]] std::optional<WriteOptions> divisible(const wire::OpMsgView& command,
                                                    std::size_t statements);

/// A command of its own that carries some statements of a client's batch.
struct WritePart {
  std::span<const std::int32_t> statements;  ///< they ascend
  const WriteOptions* options;  ///< of the client's command; null: all its fields stay as they are
  bool first;  ///< of this batch: what begins a transaction stands in the first command alone
  std::optional<std::int64_t> max_time_ms;  ///< what is left of it
  std::int32_t request_id;
};

}  // namespace idproxy::rewrite
