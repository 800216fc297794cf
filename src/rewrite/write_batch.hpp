#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "batch_progress.hpp"
#include "collisions.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/action.hpp"
#include "repeats.hpp"
#include "retry_budget.hpp"
#include "value_renewal.hpp"
#include "write_command.hpp"

namespace idproxy::rewrite {

/// What has been sent of a batch when it becomes a WriteBatch.
enum class BatchSent { nothing, whole };

/// A client's write that takes, or may take, more than one command: a state machine that sends its
/// statements, sends those again whose values are taken, and makes one reply of what comes back.
/// With a txnNumber each command names the statements, which for the server are the client's own,
/// so that none is lost or executed twice (docs/server-behaviour.md#retryable-writes).
class WriteBatch {
 public:
  struct Contents {
    std::unique_ptr<WriteCommand> command;
    std::shared_ptr<const Plan> plan;
    std::chrono::nanoseconds started;  ///< when it came, monotonic
    GivenValues given;
    std::size_t statements;
  };
  /// What one event works with.
  struct Step {
    std::chrono::nanoseconds now;  ///< monotonic
    RandomSource& random;
    Workspace& workspace;
    wire::PatchedMessage& out;  ///< to hold the next command
  };
  WriteBatch(Contents contents, BatchSent sent);
  WriteBatch(const WriteBatch&) = delete;  // its parts refer to each other
  WriteBatch& operator=(const WriteBatch&) = delete;

  /// The next command.
  Action send(const Step& step);
  /// `message` answers the command that is out.
  Action reply(const wire::OpMsgView& message, const Step& step);
  /// The store's answer, or that nobody waits for it any more.
  Action answered(ids::Result<ids::Grant> grant, const Step& step);

  /// The client's message.
  [[nodiscard]] Bytes original() const { return contents_.command->message().message(); }
  /// Of the command that is out.
  [[nodiscard]] std::int32_t request_id() const { return request_id_; }
  [[nodiscard]] std::optional<GivenUp> given_up() const;
  Buffer release() { return contents_.command->release(); }

 private:
  // What a reply says.
  Action failed(const wire::OpMsgView& message, std::int64_t code, const Step& step);
  std::optional<Action> failed_duplicate(const wire::OpMsgView& message, const Step& step);
  Action answered(const wire::OpMsgView& message, const WriteReply& reply, const Step& step);
  Action answered_once(const wire::OpMsgView& message, const WriteReply& reply, const Step& step);
  std::optional<Action> aborted(const wire::OpMsgView& message, const Collision& collision,
                                const Step& step);
  void went_well() const;

  // What goes again.
  Action decide(std::vector<Collision> collisions, const Step& step);
  [[nodiscard]] bool may_go_again(const Collision& collision, const Step& step);
  Action renew(const Step& step);
  Action decided(const Step& step);
  void count(std::span<const Collision> collisions);
  Action go_again(std::span<const std::int32_t> statements, const Step& step);
  Action send_whole(const Step& step);
  [[nodiscard]] bool only_repeats(std::span<const std::int32_t> next) const;

  // The end.
  Action expired(const Step& step);
  Action fail(CommandError error, const Step& step) const;
  Action finish_or_relay(const Step& step);
  Action finish(const Step& step, std::span<const Assigned> assigned);
  Action relay_failure(const Step& step);
  [[nodiscard]] std::vector<Assigned> report() const;
  [[nodiscard]] bool is_unused(const Given& given) const;
  void give_back_unused() const;

  [[nodiscard]] const Assignment& assignment(std::size_t given) const {
    return (*contents_.plan)[contents_.given.given[given].assignment];
  }
  [[nodiscard]] std::int32_t client_request_id() const {
    return contents_.command->message().header().request_id;
  }

  Contents contents_;
  std::optional<WriteOptions> options_;  // nothing: sent once, as it is
  BatchProgress progress_;
  RetryBudget budget_;
  Repeats repeats_;
  TakenValues taken_;
  ValueRenewal renewal_;
  std::int32_t request_id_;
  bool failed_whole_ = false;     // the last reply was a duplicate as a whole
  bool only_ = false;             // the last reply is all there is
  bool retried_ = false;          // the server had executed some statements earlier
  bool replaces_errors_ = false;  // some of the errors are ours
  Buffer failure_;                // the last reply that was a duplicate as a whole
};

}  // namespace idproxy::rewrite
