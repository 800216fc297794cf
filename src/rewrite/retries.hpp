#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/duplicates.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/rewrite/stage.hpp"
#include "rewrite/batch_progress.hpp"

namespace idproxy::rewrite {

/// Limits how often, after which pause and until when the statements of one command may be sent
/// again. The limits are those of the rules whose values were taken, and the client's maxTimeMS.
/// The rules' deadlines run from the first duplicate or the last progress on: a large batch takes
/// longer than one document, and does not fail as long as it progresses. All times are monotonic.
class RetryBudget {
 public:
  /// `max_time_ms`: milliseconds from `started` on; nothing: no limit.
  RetryBudget(std::optional<std::int64_t> max_time_ms, std::chrono::nanoseconds started)
      : max_time_ms_(max_time_ms), started_(started) {}

  /// The milliseconds left of maxTimeMS, possibly negative; nothing if the client has set no limit.
  [[nodiscard]] std::optional<std::int64_t> time_left(std::chrono::nanoseconds now) const;

  /// Event: duplicates have been reported. The rules' deadlines start to run unless they already
  /// do.
  void start(std::chrono::nanoseconds now);
  /// Event: a statement has been stored. The deadlines that run start anew.
  void progress(std::chrono::nanoseconds now);
  /// Stops the deadlines, because the next command begins another part of the batch.
  void end() { since_.reset(); }
  /// Returns the bound that forbids another repetition of a statement whose values for `taken` are
  /// taken, after `repeats` of them. Nothing: it may be sent, and the pause becomes at least the
  /// backoff of these assignments. Only after start().
  [[nodiscard]] std::optional<RetryBound> forbids(std::span<const Assignment* const> taken,
                                                  std::uint32_t repeats,
                                                  std::chrono::nanoseconds now);
  /// Returns and resets the pause before the next command: the longest backoff since the last call,
  /// less a random part of up to half, so that writes that collided with each other do not do so
  /// again.
  [[nodiscard]] std::chrono::nanoseconds take_pause(RandomSource& random);
  /// How long to wait for the store's fresh values: not beyond the rule's deadline, nor
  /// longer than the strategy that is asked allows.
  [[nodiscard]] std::chrono::nanoseconds patience(const Rule& rule, const ids::StoreSource& asked,
                                                  std::chrono::nanoseconds now) const;

 private:
  std::optional<std::int64_t> max_time_ms_;
  std::chrono::nanoseconds started_;
  std::optional<std::chrono::nanoseconds> since_;  // the deadlines run
  std::chrono::nanoseconds pause_{};
};

/// Tracks the statements that are repeated with fresh values, until they are stored, and counts the
/// outcomes for their rules.
class Repeats {
 public:
  /// How often the statement has been repeated for this rule.
  [[nodiscard]] std::uint32_t of(std::int32_t statement, const Assignment& rule) const;
  [[nodiscard]] bool contains(std::int32_t statement) const { return all_.contains(statement); }

  /// Event: the statement will be sent again. `rule`: the rule of the first of its values that are
  /// taken.
  void add(std::int32_t statement, const Assignment& rule);
  /// Event: these statements are in the command that is being sent.
  void sent(std::span<const std::int32_t> statements);
  /// Event: the server has tried these statements. `errors`: by statement.
  void tried(std::span<const std::int32_t> statements,
             const std::map<std::int32_t, Buffer>& errors);
  /// Event: a value of this rule stays a duplicate.
  void give_up(const Assignment& rule, RetryBound ended_by);
  /// Event: those of these statements that were to be sent again keep their errors instead.
  void abandon(std::span<const std::int32_t> statements, RetryBound ended_by);

  /// The rule of the last value that stays a duplicate, and why; null if there is none.
  struct Last {
    const Assignment* rule = nullptr;
    RetryBound ended_by{};
  };
  [[nodiscard]] const Last& given_up() const { return given_up_; }

 private:
  struct Repeated {
    std::map<const Assignment*, std::uint32_t> times;  // by rule
    const Assignment* rule = nullptr;                  // the last one
    bool sent = false;                                 // the last repetition has been counted
  };

  std::unordered_map<std::int32_t, Repeated> all_;
  Last given_up_;
};

/// Draws fresh values for the collisions of one reply, rule by rule, each from the sequence that
/// the taken value came from. If there are not enough values, the last statements get none, and
/// their `again` becomes false. Values that were never sent may be replaced along with them.
class ValueRenewal {
 public:
  /// Borrows its arguments.
  ValueRenewal(const Plan& plan, GivenValues& given, TakenValues& taken)
      : plan_(plan), given_(given), taken_(taken) {}

  /// Starts to draw values for the collisions whose `again` is true, and in place of the values
  /// `doubtful`, indexes in GivenValues::given, which keep theirs if the store has no better ones.
  void start(std::vector<Collision> collisions, const std::vector<std::size_t>& doubtful = {});
  /// Draws values. Returns nothing once it is done, or what to ask the store for; then call
  /// answered().
  [[nodiscard]] std::optional<Need> draw();
  void answered(ids::Result<ids::Grant> grant);

  /// True if the store has been asked since start().
  [[nodiscard]] bool has_asked() const { return asked_; }
  /// All collisions; those that got no fresh value have `again` false.
  [[nodiscard]] std::vector<Collision> take() { return std::exchange(collisions_, {}); }

 private:
  void want_next();
  void want_rule();
  [[nodiscard]] std::size_t source_of(std::size_t wanted) const;
  void renewed(std::size_t first);
  void leave_doubtful();
  void leave_behind();

  const Plan& plan_;
  GivenValues& given_;
  TakenValues& taken_;
  std::vector<Collision> collisions_;
  // All values to renew, by assignment: indexes in given_.given, with their collisions; null: it is
  // a doubtful one.
  std::vector<std::pair<Collision*, std::size_t>> all_;
  std::size_t next_ = 0;  // in all_, behind those of the assignment
  // The assignment whose values are being drawn; before start() there is none.
  std::size_t assignment_ = plan_.size();
  std::size_t source_ = 0;  // which of its sequences
  // The values of that assignment to renew, by sequence and statement.
  std::vector<std::pair<Collision*, std::size_t>> wanted_;
  std::size_t end_ = 0;    // those of the sequence end here
  std::size_t done_ = 0;   // how many of wanted_ have a fresh value, or get none
  std::size_t count_ = 0;  // how many values to draw at once
  bool asked_ = false;
};

/// Fresh values in place of those that are taken, as far as their rules allow another attempt.
class FreshValues final : public Stage {
 public:
  /// Borrows its arguments.
  FreshValues(const Plan& plan, GivenValues& given, RetryBudget& budget, Repeats& repeats,
              TakenValues& taken)
      : plan_(plan),
        given_(given),
        budget_(budget),
        repeats_(repeats),
        taken_(taken),
        renewal_(plan, given, taken) {}

  /// Finds out which of these, whose values are taken, may go again, and starts to renew the values
  /// that they need for that. `progress`: of a batch whose statements behind a duplicate may need
  /// fresh values, too; null: they do not. `then` is called once they are drawn.
  void settle(std::vector<Collision> collisions, const BatchProgress* progress,
              std::chrono::nanoseconds now, std::function<void()> then = {});
  [[nodiscard]] std::optional<Need> need(const Moment& moment) override;
  /// Without values, the statements make do without.
  [[nodiscard]] std::optional<End> accept(const Answer& answer) override;
  void sent(std::span<const std::int32_t> statements) override { repeats_.sent(statements); }
  [[nodiscard]] std::optional<Next> failed(const Failure& failure) override;
  /// The collisions of settle(), which it counts: those that go again now, and the others.
  [[nodiscard]] std::vector<Collision> settled();

  [[nodiscard]] const Assignment& rule_of(const Collision& collision) const {
    return plan_[given_.given[collision.given.front()].assignment];
  }
  /// True if the store has been asked since settle().
  [[nodiscard]] bool has_asked() const { return renewal_.has_asked(); }

 private:
  [[nodiscard]] std::optional<RetryBound> forbids(const Collision& collision,
                                                  std::chrono::nanoseconds now);
  [[nodiscard]] std::vector<std::size_t> doubtful(const Collision& first,
                                                  const BatchProgress& progress) const;

  const Plan& plan_;
  GivenValues& given_;
  RetryBudget& budget_;
  Repeats& repeats_;
  TakenValues& taken_;
  ValueRenewal renewal_;
  std::function<void()> then_;
};

}  // namespace idproxy::rewrite
