#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/workspace.hpp"

namespace idproxy::rewrite {

/// Larger unordered batches go in several commands, so that a storm of collisions never makes a
/// reply that mongod cannot send (it closes the connection then; observed at 100,000).
inline constexpr std::size_t kPartStatements = 20'000;

/// What has been sent of a batch when it becomes an InsertBatch.
enum class BatchSent { nothing, whole };

/// A client's insert that takes, or may take, more than one command: which of its documents are
/// out, which are still to be sent or to be sent again, and what has been answered. With a
/// txnNumber each command names the documents' statements, which for the server are the client's
/// own, so that no document is lost or stored twice (docs/server-behaviour.md#retryable-writes).
class InsertBatch {
 public:
  struct Contents {
    Buffer original;  ///< the client's message, a well-formed insert
    std::shared_ptr<const Plan> plan;
    std::chrono::seconds now;          ///< of its rewriting, since the Unix epoch
    std::chrono::nanoseconds started;  ///< when it came, monotonic
    GivenValues given;
    std::vector<RefusedDocument> refused;
    std::size_t documents;
  };
  /// What one event works with.
  struct Step {
    std::chrono::nanoseconds now;  ///< monotonic
    RandomSource& random;
    Workspace& workspace;
    wire::PatchedMessage& out;  ///< to hold the next command
  };
  InsertBatch(Contents contents, BatchSent sent);
  InsertBatch(const InsertBatch&) = delete;  // command_ points into message_
  InsertBatch& operator=(const InsertBatch&) = delete;

  [[nodiscard]] Bytes original() const { return contents_.original.view(); }
  /// The options of an insert whose documents may go in several commands, else nothing.
  [[nodiscard]] static std::optional<InsertOptions> divisible(const wire::OpMsgView& insert,
                                                              std::size_t documents);
  /// True if mongod will not refuse the command for one of its documents, but each of them by
  /// itself: then the first part cannot be stored before a later one makes the whole fail.
  [[nodiscard]] static bool separable(const InsertCommand& command);

  /// The next command.
  Action send(const Step& step);
  /// `message` answers the command that is out.
  Action reply(const wire::OpMsgView& message, const Step& step);

  /// The store's answer, or that nobody waits for it any more.
  Action answered(ids::Result<ids::Grant> grant, const Step& step);

  [[nodiscard]] std::int32_t request_id() const { return request_id_; }
  [[nodiscard]] std::optional<GivenUp> given_up() const {
    if (given_up_ == nullptr) return std::nullopt;
    return GivenUp{ns_, given_up_->rule, given_up_->attempts()};
  }
  Buffer release() { return std::move(contents_.original); }

 private:
  /// A document whose value is taken, and its values that a fresh one may help.
  struct Collision {
    std::int32_t document;
    std::vector<std::size_t> given;  // in contents_.given.given
    bool again = false;
  };
  /// Drawing fresh values for the collisions of one reply, rule by rule.
  struct Renewal {
    std::vector<Collision> collisions;
    std::size_t assignment = 0;                         // whose values are drawn next
    std::vector<std::pair<Collision*, Given*>> wanted;  // of it, in the order of the documents
    std::size_t done = 0;                               // of wanted
    std::size_t count = 0;                              // to be drawn at once
  };
  struct Tries {
    std::uint32_t resent = 0;
    const Assignment* rule;  // of the first of its values that collided
    bool counted;            // its last re-send
  };

  Action failed(const wire::OpMsgView& message, const InsertReply& reply, const Step& step);
  Action answered(const wire::OpMsgView& message, const InsertReply& reply,
                  std::span<const WriteError> errors, const Step& step);
  std::optional<Action> aborted(const wire::OpMsgView& message, const Collision& collision,
                                const Step& step);
  void limit_tail(std::span<const WriteError> errors);
  Action go_again(std::vector<std::int32_t> documents, const Step& step);
  Action send_whole(const Step& step);
  Action finish_or_relay(const Step& step);
  Action relay_failure(const Step& step);
  Action finish(const Step& step);
  Action expired(const Step& step);
  Action fail(CommandError error, const Step& step) const;
  Action answered_once(const wire::OpMsgView& message, const InsertReply& reply,
                       std::span<const WriteError> errors, const Step& step);

  [[nodiscard]] bool adds_up(const InsertReply& reply, std::span<const WriteError> errors) const;
  [[nodiscard]] bool refuses(std::span<const WriteError> errors) const;
  [[nodiscard]] std::vector<Collision> collisions_in(std::span<const WriteError> errors) const;
  [[nodiscard]] Collision collision_of(std::int32_t document, Bytes error) const;
  [[nodiscard]] std::span<const Given> given_to(std::int32_t document) const;
  void tell_strategies(std::span<const Collision> collisions, ids::Taken where);
  Action decide(std::vector<Collision> collisions, const Step& step);
  [[nodiscard]] bool may_go_again(const Collision& collision, std::chrono::nanoseconds now);
  void abandon(std::span<const std::int32_t> documents);
  [[nodiscard]] bool only_resends(std::span<const std::int32_t> next) const;
  void count_resent();
  void count_cured(std::size_t reached);
  void count_decided(std::span<const Collision> collisions);
  Action renew(const Step& step);
  Action ask(const Assignment& target, const Step& step) const;
  void want_next_rule();
  void renewed(std::size_t first);
  void leave_behind();
  Action decided(const Step& step);
  void take_back_unused() const;
  void take_back(std::vector<std::vector<std::uint32_t>>& values) const;
  void take_back_all() const;
  [[nodiscard]] bool is_unused(const Given& given) const;
  void went_well() const;
  [[nodiscard]] std::optional<std::int64_t> time_left(std::chrono::nanoseconds now) const;
  [[nodiscard]] std::vector<Assigned> report() const;
  [[nodiscard]] const Assignment& assignment(std::size_t given) const {
    return (*contents_.plan)[contents_.given.given[given].assignment];
  }
  [[nodiscard]] bool only_command() const { return commands_ == 1 && todo_.empty(); }

  Contents contents_;
  wire::OpMsgView message_;
  InsertCommand command_;
  std::optional<InsertOptions> options_;  // nothing: sent once, as it is
  std::string ns_;

  std::vector<std::int32_t> sent_;  // in the command that is out
  std::vector<std::int32_t> todo_;  // to be sent after it
  std::size_t again_ = 0;           // unordered: that many of todo_ have collided, and go first
  std::optional<std::size_t>
      tail_;                  // of an ordered batch that has collided: the next command's size
  std::size_t commands_ = 0;  // sent so far
  std::int32_t request_id_;
  std::unordered_map<std::int32_t, Tries> tries_;  // by document
  std::optional<std::chrono::nanoseconds> first_duplicate_;
  std::chrono::nanoseconds wait_{};  // before what has collided goes again
  Renewal renewal_;
  bool asked_ = false;                     // the store, since the last reply: it is gone
  bool failed_whole_ = false;              // the last reply was a duplicate as a whole
  std::optional<std::int32_t> stopped_;    // where the last command of an ordered batch did
  bool only_ = false;                      // the last reply is all there is
  std::vector<std::size_t> collisions_;    // of the whole batch, by assignment
  std::unordered_set<std::size_t> taken_;  // of given: its present value has collided
  bool retried_ = false;                   // the server had executed some statements earlier
  ReplyMerge merge_;
  Buffer failure_;                // the last reply that was a duplicate as a whole
  bool replaces_errors_ = false;  // of refused documents
  const Assignment* given_up_ = nullptr;
};

}  // namespace idproxy::rewrite
