#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/rewrite/action.hpp"
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

/// The commands of a write that may take more than one, and their replies. WriteExchange::write()
/// says in which order the steps come. A step returns the action that it needs, or that ends the
/// write; nothing if the write can go on.
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
  using Step = std::optional<Action>;

  /// Of which the whole command has been sent, or nothing.
  explicit Batch(WriteState& write);
  Batch(const Batch&) = delete;  // its members refer to each other
  Batch& operator=(const Batch&) = delete;

  // ---- its stages; null: it has none

  [[nodiscard]] FreshValues& fresh() { return fresh_; }
  [[nodiscard]] Stage* reservations() { return reservations_.get(); }
  [[nodiscard]] Stage* turns() { return turns_ ? &*turns_ : nullptr; }

  // ---- before a command

  /// The statements that are still to be sent.
  [[nodiscard]] std::span<const std::int32_t> todo() const { return progress_.todo(); }
  /// The milliseconds left of the client's maxTimeMS; nothing: it has set no limit.
  [[nodiscard]] std::optional<std::int64_t> time_left() const {
    return budget_.time_left(write_.now_);
  }
  [[nodiscard]] bool has_expired() const { return time_left().value_or(1) <= 0; }
  [[nodiscard]] bool has_begun() const { return progress_.commands() > 0; }
  /// Ends the write if all of these statements, the next ones, have collided. With an ordered
  /// batch, those after the first do not count.
  Step keep_errors(std::span<const std::int32_t> next, RetryBound ended_by);
  /// Sends the next command. Ends the write if the client's maxTimeMS is over.
  Action send();

  // ---- after it

  /// Of a bulkWrite: asks the server for the results that the reply lacks. Once it has all, the
  /// reply is one with all.
  Step fetch();
  /// Sorts the outcome of the command that was sent last, by its reply or, after a question to the
  /// server, by the answer. Then fresh() renews what has collided.
  Step take();
  /// Decides which statements are sent next.
  Step decide();
  /// True if none are.
  [[nodiscard]] bool is_done() const { return done_; }

  // ---- the client's answer

  /// The values to report are those that are stored: has to ask a server that may have stored
  /// others.
  Step ask_what_is_stored();
  /// If the server does not tell, nothing is reported.
  void told_what_is_stored() { (void)stored_->read(*write_.reply_); }
  /// Relays the last reply if it needs no change.
  Action answer();
  /// At every end, also without an answer: what the server never got, or what has certainly stored
  /// nothing, goes back. All else may be stored.
  [[nodiscard]] bool is_unstored(std::int32_t statement) const;
  /// The same of a value; its index in GivenValues::given.
  [[nodiscard]] bool is_unused(std::size_t given) const;
  /// Tells what has become of the write.
  void tell(ExchangeFacts& facts);

 private:
  void reserved(ReserveStage::Outcome outcome);

  // A command.
  [[nodiscard]] std::optional<std::size_t> emit_part();
  Action send_whole();
  Action send_written();
  void begin_question();

  // Its reply.
  Step take_failure(const wire::OpMsgView& message, std::int64_t code);
  Step without_numbers();
  Step take_reply(const wire::OpMsgView& message, const WriteReply& reply);
  Action take_only_reply(const wire::OpMsgView& message, const WriteReply& reply);
  Step aborted(const wire::OpMsgView& message, const Collision* collision);
  void went_well() const;
  Step go_past(std::span<const Collision> collisions, std::span<const std::int32_t> rest);
  Step go_again(std::span<const std::int32_t> statements);

  // A server that does not tell what it had executed before.
  [[nodiscard]] bool is_unsure_insert() const;
  [[nodiscard]] bool may_be_mixed_up(const WriteReply& reply) const;
  Step send_missing();

  // Answering the client.
  Action readdress(const wire::OpMsgView& message, decltype(append_readdressed)& append) const;
  Action finish(std::span<const Assigned> assigned);
  [[nodiscard]] std::vector<Assigned> report() const;

  [[nodiscard]] const wire::OpMsgView& client() const { return write_.request_.message; }
  [[nodiscard]] std::int32_t client_request_id() const { return client().header().request_id; }

  WriteState& write_;
  const Plan& plan_;
  GivenValues& given_;
  const std::unique_ptr<Operation> operation_;
  Operation& command_;
  std::optional<WriteOptions> options_;  // nothing: sent only once, unchanged
  // The client may repeat an earlier attempt, and the server does not say what that has stored:
  // then other values are stored than those that are given now.
  const bool is_unsure_;
  BatchProgress progress_;
  Fates fates_;
  RetryBudget budget_;
  Repeats repeats_;
  TakenValues taken_;
  FreshValues fresh_;
  std::optional<TurnStage> turns_;              // nothing: no number comes from a sequence
  std::unique_ptr<ReserveStage> reservations_;  // null: nothing is reserved
  bool done_ = false;
  /// What the last reply means, beside the collisions that fresh_ has of it.
  struct Outcome {
    bool is_only = false;             // the batch had taken only one command until then
    bool failed_whole = false;        // it is failure_
    std::vector<std::int32_t> moved;  // refused because the collection is another one
    std::vector<std::int32_t> again;  // all of the command goes again
  };
  Outcome outcome_;
  BulkResults results_;
  bool is_joined_ = false;                // some reply was joined of several
  bool retried_ = false;                  // the server had executed some statements earlier
  bool replaces_errors_ = false;          // some errors are replaced by the proxy's own
  Buffer failure_;                        // the last reply that failed as a whole with a duplicate
  std::optional<StoredQuestion> stored_;  // what the server has stored, to report that
  std::optional<ExecutedQuestion> question_;  // to the server: what it has executed
  RepeatedInsert repeated_;
};

}  // namespace idproxy::rewrite
