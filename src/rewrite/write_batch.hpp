#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/action.hpp"
#include "rewrite/batch_progress.hpp"
#include "rewrite/collisions.hpp"
#include "rewrite/executed_look.hpp"
#include "rewrite/guards.hpp"
#include "rewrite/repeated_insert.hpp"
#include "rewrite/repeats.hpp"
#include "rewrite/retry_budget.hpp"
#include "rewrite/stored_look.hpp"
#include "rewrite/turn_stage.hpp"
#include "rewrite/value_renewal.hpp"
#include "rewrite/value_reservations.hpp"
#include "rewrite/write_command.hpp"

namespace idproxy::rewrite {

/// How much of a batch has been sent when it becomes a WriteBatch.
enum class BatchSent { nothing, whole };

/// A client's write that may take more than one command. A state machine that sends the write's
/// statements, sends those again whose values are taken, and merges the replies into one. With a
/// txnNumber, each command gives the client's own numbers to its statements, so that the server
/// neither loses one nor executes one twice (docs/server-behaviour.md#retryable-writes).
///
/// A write that gets numbers of a sequence without gaps is sent in order and with write concern
/// majority, whatever the client asked for, so that its stored statements are always its first
/// ones. If the client's batch is unordered, the statements behind a failed one are sent again,
/// with numbers from the failed one's on (docs/strategies.md#gapless).
class WriteBatch {
 public:
  struct Contents {
    std::unique_ptr<WriteCommand> command;
    std::shared_ptr<const Plan> plan;
    std::chrono::nanoseconds started;  ///< when the write arrived, monotonic
    GivenValues given;
    std::size_t statements;
    WriteKind kind;
    bool once = false;  ///< it is sent in one command, whose outcome nobody learns (w: 0)
    /// BatchSent::whole: of the collection that it was sent to.
    std::optional<ids::CollectionUuid> uuid{};
    bool tells_retried = true;  ///< ConnectionMemory's, as the next one
    bool loses_writes = false;
  };
  /// The arguments of an event's handlers.
  struct Step {
    std::chrono::nanoseconds now;  ///< monotonic
    RandomSource& random;
    Workspace& workspace;
    wire::PatchedMessage& out;  ///< receives the next command
  };
  WriteBatch(Contents contents, BatchSent sent);
  WriteBatch(const WriteBatch&) = delete;  // its members refer to each other
  WriteBatch& operator=(const WriteBatch&) = delete;

  /// Before anything is sent: has send() reserve the documents' values. `insert`: the write.
  /// `refused`: documents that the server does not get.
  void reserve(const WriteRequest& insert, std::span<const RefusedDocument> refused);
  /// Sends the next command, or asks the store for the numbers or reservations that it needs.
  Action send(const Step& step);
  /// Event: `message` answers the command that was sent last.
  Action reply(const wire::OpMsgView& message, const Step& step);
  /// Event: the store's answer, or the error with which the caller has stopped waiting for it.
  Action answered(ids::Result<ids::Grant> grant, const Step& step);

  /// The values, some of which may not have been sent yet.
  [[nodiscard]] const GivenValues& given() const { return contents_.given; }
  /// The same, if nothing has been sent. Only release() may follow.
  [[nodiscard]] GivenValues take_given() { return std::move(contents_.given); }
  /// The client's message.
  [[nodiscard]] Bytes original() const { return contents_.command->message().message(); }
  /// True if the server has left out statements of a repeated insert without a word.
  [[nodiscard]] bool lost_writes() const { return repeated_.has_lost(); }
  /// The request id of the command that was sent last.
  [[nodiscard]] std::int32_t request_id() const { return request_id_; }
  [[nodiscard]] std::optional<GivenUp> given_up() const;
  Buffer release() { return contents_.command->release(); }

 private:
  // Asking the store.
  enum class Asks { nothing, guard, reservations, numbers, renewal };
  Action ask(Asks what, const Need& need, std::chrono::nanoseconds patience, const Step& step);
  Action no_values_for(const Assignment& rule, const ids::Error& error, const Step& step);

  // Handling replies.
  Action failed(const wire::OpMsgView& message, std::int64_t code, const Step& step);
  std::optional<Action> failed_duplicate(const wire::OpMsgView& message, const Step& step);
  Action answered(const wire::OpMsgView& message, const WriteReply& reply, const Step& step);
  Action answered_once(const wire::OpMsgView& message, const WriteReply& reply, const Step& step);
  std::optional<Action> aborted(const wire::OpMsgView& message, const Collision& collision,
                                const Step& step);
  std::optional<Action> run_again(const wire::OpMsgView& message, const Assignment& target,
                                  const std::string& why, const Step& step);
  void went_well() const;

  // Guards.
  std::optional<Action> await_guards(const Step& step);
  [[nodiscard]] std::chrono::nanoseconds guard_patience(const Step& step) const {
    return guards_.patience(step.now, progress_.commands() > 0);
  }
  [[nodiscard]] std::vector<std::int32_t> moved_in(std::span<const WriteError> errors) const;
  std::optional<Action> failed_uuid(const wire::OpMsgView& message, std::int64_t code,
                                    const Step& step);
  [[nodiscard]] bool lost_its_index(const ids::Error& error, const Step& step);
  Action moved_too_often(const Step& step);

  // Reservations.
  Action reserved(ids::Grant grant, const Step& step);
  Action renewed_before_sending(std::span<const Collision> collisions, const Step& step);
  Action send_once(const Step& step);
  void release_unused() const;

  // Numbers of sequences.
  [[nodiscard]] std::size_t most_at_once() const;
  Action ask_whether_executed(const Step& step);
  Action told_whether_executed(const wire::OpMsgView& message, const Step& step);
  [[nodiscard]] Bytes own_fields();
  Action go_past(std::span<const Collision> collisions, std::span<const std::int32_t> rest,
                 const Step& step);

  // Sending again.
  Action decide(std::vector<Collision> collisions, const Step& step);
  [[nodiscard]] std::optional<RetryBound> forbids(const Collision& collision, const Step& step);
  [[nodiscard]] std::vector<std::size_t> doubtful(std::span<const Collision> collisions);
  Action renew(const Step& step);
  Action decided(const Step& step);
  void count(std::span<const Collision> collisions);
  Action go_again(std::span<const std::int32_t> statements, const Step& step);
  Action send_whole(const Step& step);
  [[nodiscard]] bool only_repeats(std::span<const std::int32_t> next) const;

  // A server that does not tell what it had executed before.
  [[nodiscard]] bool is_unsure() const;
  std::optional<Action> ask_what_is_stored(const Step& step);
  [[nodiscard]] bool is_unsure_insert() const;
  [[nodiscard]] bool may_be_mixed_up(const WriteReply& reply, const Step& step) const;
  Action send_missing(const std::optional<std::vector<std::int32_t>>& executed, const Step& step);
  enum class Looks { nothing, before, for_missing, to_report };
  void begin_question(const Step& step);
  Action ask_which_are_executed(std::span<const std::int32_t> statements, Looks why,
                                const Step& step);
  Action told(const wire::OpMsgView& message, const Step& step);

  // Answering the client.
  Action expired(const Step& step);
  Action fail(CommandError error, const Step& step) const;
  Action finish_or_relay(const Step& step);
  Action finish(const Step& step, std::span<const Assigned> assigned);
  Action relay_failure(const Step& step);
  [[nodiscard]] std::vector<Assigned> report() const;
  [[nodiscard]] bool is_unused(std::int32_t statement) const;
  [[nodiscard]] bool all_denied() const;
  void give_back_unused() const;

  [[nodiscard]] const Assignment& assignment(std::size_t given) const {
    return (*contents_.plan)[contents_.given.given[given].assignment];
  }
  [[nodiscard]] std::int32_t client_request_id() const {
    return contents_.command->message().header().request_id;
  }

  Contents contents_;
  std::optional<TurnStage> turns_;       // of sequences; nothing: there are none
  std::optional<WriteOptions> options_;  // nothing: sent only once, unchanged
  BatchProgress progress_;
  RetryBudget budget_;
  Asks asks_ = Asks::nothing;             // what the store has been asked for
  const Assignment* asks_for_ = nullptr;  // the rule that it is for
  Repeats repeats_;
  TakenValues taken_;
  ValueRenewal renewal_;
  std::int32_t request_id_;
  bool failed_whole_ = false;         // the last reply was failure_
  bool only_ = false;                 // the batch had taken only one command until the last reply
  bool retried_ = false;              // the server had executed some statements earlier
  bool replaces_errors_ = false;      // some errors are replaced by the proxy's own
  Buffer failure_;                    // the last reply that failed as a whole with a duplicate
  std::optional<StoredLook> stored_;  // what the server has stored, to report that
  std::optional<ExecutedLook> question_;  // to the server: what it has executed
  Looks looks_ = Looks::nothing;          // which of the two it has not answered yet
  RepeatedInsert repeated_;
  GuardStage guards_;
  std::vector<std::int32_t> moved_;  // refused because the collection is another one
  // With reservations_:
  std::unique_ptr<ValueReservations> reservations_;  // null: nothing is reserved
  bool renews_before_sending_ = false;               // values that could not be reserved
  Buffer fields_;  // of the next command, in place of the client's or new
};

}  // namespace idproxy::rewrite
