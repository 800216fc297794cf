#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/draw_stage.hpp"
#include "idproxy/rewrite/duplicates.hpp"
#include "idproxy/rewrite/write_state.hpp"
#include "rewrite/batch_progress.hpp"
#include "rewrite/bulk_write.hpp"
#include "rewrite/earlier_attempts.hpp"
#include "rewrite/operation.hpp"
#include "rewrite/reserve_stage.hpp"
#include "rewrite/retries.hpp"
#include "rewrite/turn_stage.hpp"

namespace idproxy::rewrite {

/// The parts of a write that may take more than one command: what has been sent, stored, and taken.
/// WriteExchange::write() says in which order the steps come. A step returns the action that it
/// needs, or that ends the write; nothing if the write can go on.
///
/// The statements whose values are taken go again, and the replies are merged into one. With a
/// txnNumber, each command gives the client's own numbers to its statements, so that the server
/// neither loses one nor executes one twice (docs/server-behaviour.md#retryable-writes).
///
/// A write that gets numbers of a sequence without gaps is sent in order and with write concern
/// majority, whatever the client asked for, so that its stored statements are always its first
/// ones. If the client's batch is unordered, the statements behind a failed one are sent again,
/// with numbers from the failed one's on (docs/strategies.md#gapless).
class Batch {
 public:
  using Next = std::optional<Action>;

  /// Of which the whole command has been sent, or nothing.
  explicit Batch(WriteState& write);
  Batch(const Batch&) = delete;  // its members refer to each other
  Batch& operator=(const Batch&) = delete;

  // ---- before a command

  /// True if the client's maxTimeMS is over.
  [[nodiscard]] bool has_expired() const { return budget_.time_left(write_.now_).value_or(1) <= 0; }
  /// What the next command lacks: reservations, turns, an answer of the server. Nothing once it can
  /// be sent.
  [[nodiscard]] std::optional<Need> lacks();
  /// Asks the server what it has executed of an earlier attempt, for Stage::earlier_attempt.
  Action ask_whether_executed();
  /// The answer for `need`: of the store or, for Stage::earlier_attempt, of the server.
  Next accept(const Need& need);
  /// Sends the next command. Ends the write if the client's maxTimeMS is over.
  Action send();

  // ---- after it

  /// Of a bulkWrite: asks the server for the results that the reply lacks. Once it has all, the
  /// reply is one with all.
  Next fetch();
  /// Sorts the outcome of the command that was sent last, by its reply or, after a question to the
  /// server, by the answer.
  Next take();
  /// Draws fresh values for what has collided, as far as the rules allow. Returns what the store
  /// must be asked for; nothing once it is done.
  [[nodiscard]] std::optional<Need> renews();
  /// Decides which statements are sent next.
  Next decide();
  /// True if none are.
  [[nodiscard]] bool is_done() const { return done_; }

  // ---- the client's answer

  /// The values to report are those that are stored: has to ask a server that may have stored
  /// others.
  Next ask_what_is_stored();
  /// If the server does not tell, nothing is reported.
  void told_what_is_stored() { (void)stored_->read(*write_.reply_); }
  /// Relays the last reply if it needs no change.
  Action answer();
  /// At every end, also without an answer: returns to their strategies the values, and releases the
  /// reservations, of statements that the server never got, or of which it is certain that they
  /// have stored nothing. All others may be stored.
  void give_back() const;
  /// What becomes of the write if there are no values for `rule`.
  Action no_values_for(const Assignment& rule, const ids::Error& error);

  /// The number of commands that have been sent.
  [[nodiscard]] std::size_t commands() const { return progress_.commands(); }
  /// Tells what has become of the write.
  void tell(ExchangeFacts& facts) const;

 private:
  Next end_if_expired();
  Next keep_errors(std::span<const std::int32_t> statements, RetryBound ended_by);

  // What becomes of the statements.
  void note_sent();
  void note_refusal();
  void note_fates(const WriteReply& reply);
  void note_undone(std::int32_t statement);
  [[nodiscard]] bool may_hold_value(std::int32_t statement, const WriteReply& reply) const;
  void note_stop(bool is_undone, std::span<const std::int32_t> tail);
  [[nodiscard]] bool was_replayed(std::int32_t statement) const;

  // Handling replies.
  Next take_failure(const wire::OpMsgView& message, std::int64_t code);
  std::optional<Next> failed_for_values(const wire::OpMsgView& message);
  std::optional<Next> failed_for_guards(const wire::OpMsgView& message, std::int64_t code);
  Next failed_for_numbers(const wire::OpMsgView& message, std::int64_t code);
  Next take_reply(const wire::OpMsgView& message, const WriteReply& reply);
  Action take_only_reply(const wire::OpMsgView& message, const WriteReply& reply);
  Next aborted(const wire::OpMsgView& message, const Collision& collision);
  Next run_again(const wire::OpMsgView& message, const Assignment& target, const std::string& why);
  void went_well() const;

  // Guards.
  [[nodiscard]] std::vector<std::int32_t> moved_in(std::span<const WriteError> errors) const;
  [[nodiscard]] bool lost_its_index(const ids::Error& error);
  Action moved_too_often();

  // Reservations.
  void reserved(ids::Grant grant);
  void renewed_before_sending();

  // Numbers of sequences.
  [[nodiscard]] std::size_t most_at_once() const;
  Next told_whether_executed(const wire::OpMsgView& message);
  [[nodiscard]] Bytes own_fields();
  Next go_past(std::span<const Collision> collisions, std::span<const std::int32_t> rest);

  // Sending again.
  void settle(std::vector<Collision> collisions);
  [[nodiscard]] std::optional<RetryBound> forbids(const Collision& collision);
  [[nodiscard]] std::vector<std::size_t> doubtful(std::span<const Collision> collisions);
  void count(std::span<const Collision> collisions);
  Next go_again(std::span<const std::int32_t> statements);
  [[nodiscard]] std::optional<std::size_t> emit_part();
  Action send_part();
  Action send_whole();
  [[nodiscard]] bool only_repeats(std::span<const std::int32_t> next) const;

  // A server that does not tell what it had executed before.
  [[nodiscard]] bool is_unsure() const;
  [[nodiscard]] bool is_unsure_insert() const;
  [[nodiscard]] bool may_be_mixed_up(const WriteReply& reply) const;
  Next send_missing(const std::optional<std::vector<std::int32_t>>& executed);
  void begin_question();
  Action ask_which_are_executed(std::span<const std::int32_t> statements);
  std::optional<std::vector<std::int32_t>> told_which(const wire::OpMsgView& message);

  // Answering the client.
  Action fail(CommandError error) const;
  Action finish(std::span<const Assigned> assigned);
  Action relay_failure();
  [[nodiscard]] std::vector<Assigned> report() const;

  [[nodiscard]] const Assignment& assignment(std::size_t given) const {
    return plan_[given_.given[given].assignment];
  }
  [[nodiscard]] const wire::OpMsgView& client() const { return write_.request_.message; }
  [[nodiscard]] std::int32_t client_request_id() const { return client().header().request_id; }
  /// The client's message.
  [[nodiscard]] Bytes original() const { return client().message(); }

  WriteState& write_;
  const Plan& plan_;
  GivenValues& given_;
  Operation command_;
  std::optional<TurnStage> turns_;       // of sequences; nothing: there are none
  std::optional<WriteOptions> options_;  // nothing: sent only once, unchanged
  BatchProgress progress_;
  /// What is known of a statement with its present values.
  enum class Fate : std::uint8_t {
    unsent,
    sent,    ///< it is stored, or nobody knows
    undone,  ///< it has certainly stored nothing
  };
  std::vector<Fate> fates_;  // by statement
  RetryBudget budget_;
  Repeats repeats_;
  TakenValues taken_;
  ValueRenewal renewal_;
  bool done_ = false;
  bool failed_whole_ = false;  // the last reply was failure_
  bool only_ = false;          // the batch had taken only one command until the last reply
  BulkResults results_;
  bool is_joined_ = false;                // some reply was joined of several
  bool retried_ = false;                  // the server had executed some statements earlier
  bool replaces_errors_ = false;          // some errors are replaced by the proxy's own
  Buffer failure_;                        // the last reply that failed as a whole with a duplicate
  std::optional<StoredLook> stored_;      // what the server has stored, to report that
  std::optional<ExecutedLook> question_;  // to the server: what it has executed
  RepeatedInsert repeated_;
  std::vector<std::int32_t> moved_;             // refused because the collection is another one
  std::vector<std::int32_t> again_;             // the same, of a command that failed as a whole
  std::unique_ptr<ReserveStage> reservations_;  // null: nothing is reserved
  bool renews_before_sending_ = false;          // values that could not be reserved
  Buffer fields_;  // of the next command, in place of the client's or new
};

}  // namespace idproxy::rewrite
