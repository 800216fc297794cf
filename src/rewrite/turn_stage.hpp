#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rewrite/batch_progress.hpp"
#include "rewrite/command_in_turn.hpp"
#include "rewrite/numbers_in_turn.hpp"
#include "rewrite/write_command.hpp"

namespace idproxy::rewrite {

/// The numbers without gaps of one write, and the order in which it sends its statements because of
/// them. Numbers that a command does not store go to the next command.
///
/// An upsert may find a document and need no number, so that the next statement's number would
/// leave a gap. The same happens if the server has executed a statement in an earlier attempt of
/// the client and skips it now. The statements that were executed then precede those that were not,
/// except for failed ones. So it is enough to ask the server about the first one, or to send
/// statements one by one until one is stored.
class TurnStage {
 public:
  /// Borrows its arguments. `command`: the client's.
  TurnStage(const Plan& plan, GivenValues& given, const WriteCommand& command, WriteKind kind);

  /// Event: the client may have sent this insert before.
  void may_be_repeated() { one_by_one_ = true; }

  // ---- before a command

  /// The next request to the store before these statements, which are all that are left, can be
  /// sent; nothing if they can be sent.
  [[nodiscard]] std::optional<Need> need(std::span<const std::int32_t> todo) {
    return numbers_.provide(todo);
  }
  void accept(ids::Grant grant) { numbers_.accept(std::move(grant)); }
  /// True if the server must be asked which statements it has executed. Ask after the numbers are
  /// known: an earlier attempt that is still on its way would get the same numbers, or none.
  [[nodiscard]] bool must_ask() const { return one_by_one_ && first_ == First::unknown; }
  void asked() { first_ = First::asked; }
  [[nodiscard]] bool has_asked() const { return first_ == First::asked; }
  /// Event: the answer. `is_not_executed`: it says that the first statement has not been executed.
  void told(bool is_not_executed) {
    first_ = is_not_executed ? First::not_executed : First::unclear;
  }
  /// Event: the answer of a server before 6.0. `executed`: the executed statements, ascending;
  /// nothing: they are not known.
  void told(std::optional<std::vector<std::int32_t>> executed);
  /// True if the next command may have only one statement.
  [[nodiscard]] bool is_alone(const BatchProgress& progress) const;
  /// Outside of a transaction, appends the fields that the command must have.
  void send(const BatchProgress& progress, Buffer& fields);
  /// Event: the statements are sent, and get the next numbers.
  void sent(std::span<const std::int32_t> statements) { numbers_.send(statements); }

  // ---- after it

  /// A reply with ok: 1, after it has been merged.
  struct Outcome {
    const wire::OpMsgView& message;
    const WriteReply& reply;
    const BatchProgress& progress;
    const WriteOptions& options;
    std::span<const Collision> collisions;
    bool is_moved;      ///< its collection is another one
    bool is_unsure;     ///< the server does not tell which statements it had executed before
    bool loses_writes;  ///< ConnectionMemory's
  };
  void answered(const Outcome& outcome);
  /// The command has failed. `is_denied`: its statements are certainly not stored.
  void failed(bool is_denied) {
    is_denied ? numbers_.stored({}, ids::Durability::not_yet) : numbers_.lost();
  }
  void taken(const Collision& collision) { numbers_.taken(collision); }
  void lost() { numbers_.lost(); }
  /// The rule of a number that is taken; null if the collision is of other values.
  [[nodiscard]] const Assignment* sequence_in(const Collision& collision) const {
    return numbers_.sequence_in(collision);
  }

 private:
  [[nodiscard]] bool was_executed(std::int32_t statement) const;
  void answered_with_error(const Outcome& outcome);

  const WriteCommand& command_;
  const WriteKind kind_;
  NumbersInTurn numbers_;
  ids::Durability durability_{};  // of the last command's writes
  bool one_by_one_ = false;   // an earlier attempt of the client may have executed some statements
  bool is_repeated_ = false;  // one has
  /// Whether it has executed the first one.
  enum class First { unknown, asked, not_executed, unclear } first_ = First::unknown;
  std::optional<std::vector<std::int32_t>> executed_;  // told()
};

}  // namespace idproxy::rewrite
