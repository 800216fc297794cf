#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/rewrite/given_values.hpp"
#include "rewrite/operation.hpp"

namespace idproxy::rewrite {

/// Larger unordered batches are sent in several commands, because a reply with too many errors
/// becomes too large for mongod, which then closes the connection (observed at 100,000).
inline constexpr std::size_t kPartStatements = 20'000;

/// Where the server stops in a batch when a statement fails.
enum class Stops {
  never,           ///< not at all (an unordered batch)
  at_errors,       ///< at each error (an ordered batch)
  in_transaction,  ///< at the first error; nothing is sent again
};

/// Tracks which statements of a batch are in the command that was sent last and which are still to
/// be sent, and decides how many of them the next command takes. Statements are given by their
/// indexes in the client's batch.
class BatchProgress {
 public:
  /// Initially, nothing has been sent.
  BatchProgress(std::size_t statements, Stops stops);

  /// Event: the client's own command, with all statements, has been sent.
  void sent_whole();
  /// Moves statements that are still to be sent into the next command, at most `most`.
  void send(std::size_t most);
  /// Leaves only the first `count` in that command, which has room for no more.
  void shorten(std::size_t count);
  /// Adds all statements that are still to be sent to the command that was sent last, which the
  /// caller then sends once more.
  void join();
  /// Event: the command has been answered. `failed`: the position in it of the first statement with
  /// an error.
  void answered(std::optional<std::size_t> failed);
  /// Puts statements in front of those that are still to be sent. With an ordered batch these must
  /// be tail(), or out() if the command failed as a whole.
  void repeat(std::span<const std::int32_t> statements);

  /// The statements in the command that was sent last, ascending.
  [[nodiscard]] std::span<const std::int32_t> out() const { return out_; }
  /// The statements of out() that the server has tried; with an ordered batch, without the one that
  /// failed.
  [[nodiscard]] std::span<const std::int32_t> tried() const;
  /// With an ordered batch, the statement of out() that failed and those after it; empty if none
  /// failed.
  [[nodiscard]] std::span<const std::int32_t> tail() const;
  /// The statements that are still to be sent.
  [[nodiscard]] std::span<const std::int32_t> todo() const { return todo_; }
  /// The number of commands sent so far.
  [[nodiscard]] std::size_t commands() const { return commands_; }
  /// True if the whole batch is in a single command, which has been sent.
  [[nodiscard]] bool is_only_command() const { return commands_ == 1 && todo_.empty(); }
  /// True if the batch is unordered and the next command takes only statements that have never been
  /// sent.
  [[nodiscard]] bool begins_part() const { return stops_ == Stops::never && again_ == 0; }
  /// True if only repeated statements are still to be sent; always with an ordered batch, where
  /// those after the repeated one do not count.
  [[nodiscard]] bool only_repeats() const {
    return stops_ == Stops::at_errors || again_ == todo_.size();
  }

 private:
  void limit_tail(std::optional<std::size_t> failed);

  Stops stops_;
  std::vector<std::int32_t> out_;
  std::vector<std::int32_t> todo_;
  std::size_t again_ = 0;  // unordered: how many statements at the front of todo_ are repeated
  bool repeats_ = false;   // unordered: out_ was taken from these
  std::optional<std::size_t> tail_;  // ordered, after a collision: limit for the next command
  std::optional<std::size_t> failed_;
  std::size_t commands_ = 0;
};

/// What is known of each statement of a write with its present values: unsent; sent, so that it is
/// stored, or nobody knows; or undone: it has certainly stored nothing.
class Fates {
 public:
  /// Borrows `given`. All are sent, or none.
  Fates(const GivenValues& given, std::size_t statements, bool are_sent)
      : given_(given), all_(statements, are_sent ? Fate::sent : Fate::unsent) {}

  enum class Fate : std::uint8_t { unsent, sent, undone };
  [[nodiscard]] Fate of(std::int32_t statement) const {
    return all_[static_cast<std::size_t>(statement)];
  }

  /// Event: these are on their way, so that their values may be stored.
  void sent(std::span<const std::int32_t> statements) { set(statements, Fate::sent); }
  /// Event: the server has refused a command with these before it executed any.
  void refused(std::span<const std::int32_t> statements) { set(statements, Fate::undone); }
  /// Event: the statement has failed.
  void failed(std::int32_t statement);
  /// Event: the reply to the command with these, which accounts for each, and has been added to
  /// `command`. A statement has stored nothing if its error says so, or if it found a document that
  /// did not take its value.
  void answered(const WriteReply& reply, std::span<const std::int32_t> statements,
                const WriteOptions& options, const Operation& command);
  /// True if the statement, which has inserted nothing, may have given its value to a document that
  /// it found.
  [[nodiscard]] bool may_be_held(std::int32_t statement, const WriteReply& reply) const {
    return given_.may_be_used_by_found(statement) && reply.modified.value_or(1) != 0;
  }

 private:
  void set(std::span<const std::int32_t> statements, Fate fate) {
    for (const std::int32_t each : statements) all_[static_cast<std::size_t>(each)] = fate;
  }

  const GivenValues& given_;
  std::vector<Fate> all_;
};

}  // namespace idproxy::rewrite
