#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/ids/error.hpp"
#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::ids {

/// Decides which write gets which numbers of a sequence without gaps, and when to ask the store.
/// Has no clock and no lock: times are arguments, monotonic. Not thread-safe.
///
/// Writes wait in a queue, and the first of them has the turn. It gets the numbers behind the last
/// one that is stored. At the end of its turn it says how many of them it has stored; if it does
/// not know, the store looks before the next turn:
///
///              known, next write: numbers
///     ┌─ free ────────────────────────────▶ turn ── stored, or nothing sent ──▶ free, known
///     │   ▲ found                            │  └─── fate unknown ────────────▶ free, unknown
///     │   └───────── look ◀── unknown ───────┤
///     │                                      └─── a number was taken: look, and other numbers
///     └─ unknown, nobody waits: nothing happens
///
/// `ticket`s identify writes. They are not 0, and no two writes have the same.
class GaplessSequence {
 public:
  using Time = std::chrono::nanoseconds;

  static constexpr std::size_t kMostWaiting = 65'536;
  /// For this long after a failure of the store, writes that need it are refused at once.
  static constexpr std::chrono::seconds kFailureLasts{1};
  /// How soon to look again after a failure for a sequence that was announced.
  static constexpr std::chrono::seconds kLookAgain{2};
  /// The shortest time between two jobs that keep the floor.
  static constexpr std::chrono::seconds kKeepEvery{1};

  /// A write's place in the queue.
  enum class Haste {
    ahead,  ///< the first, and numbers as by take_ahead()
    first,  ///< before those with Haste::none
    none,
  };

  struct Answer {
    std::uint64_t ticket;
    Result<Range> numbers;
  };
  /// The caller's tasks after an event.
  struct [[nodiscard]] Action {
    bool wake = false;  ///< wake the store, so that it calls begin() soon
    std::vector<Answer> answers{};
  };

  explicit GaplessSequence(const GaplessSpec& spec) : spec_(spec) {}

  // ---- events of writes

  /// A write wants `n` > 0 numbers. The result if there is one now: then it has the turn, or is
  /// refused. Does not queue it.
  [[nodiscard]] std::optional<Result<Range>> take(std::uint64_t ticket, std::uint64_t n, Time now);
  /// The same, but queues the write. If it has the turn, its numbers are void and it wants others;
  /// `look` says how to find them.
  Action ask(std::uint64_t ticket, std::uint64_t n, GaplessLook look, Time now,
             Haste haste = Haste::none);
  /// Returns the numbers for a write that goes ahead of the one that has the turn, if they are
  /// known and no failover can make an earlier number free again. It does not get the turn: each
  /// number belongs to the write that stores it first.
  [[nodiscard]] std::optional<Result<Range>> take_ahead(std::uint64_t n, Time now) const;
  /// The write waits no longer. It keeps the turn if it has it.
  void cancel(std::uint64_t ticket);
  // The write's turn ends. If it does not have the turn, these are cancel().
  /// It has stored nothing.
  Action leave(std::uint64_t ticket);
  /// The last number that it has stored is `last`, by a majority.
  Action stored(std::uint64_t ticket, std::int64_t last, Time now);
  /// It is not known what it has stored.
  Action unknown(std::uint64_t ticket);

  /// A transaction may have stored numbers without having had the turn.
  Action forget();

  // ---- events of the store: begin() and finish() alternate

  /// The next job, if there is one to do now. Nothing while a job is under way.
  [[nodiscard]] std::optional<GaplessJob> begin(Time now);
  Action finish(const GaplessReply& reply, Time now);
  /// When to call begin() without being woken; nothing: never.
  [[nodiscard]] std::optional<Time> due() const;

  // ---- events of the process

  /// Looks before the first write comes, and again until that succeeds.
  Action announce();
  /// Refuses all writes. From now on begin() returns at most a job that keeps the floor.
  Action stop();
  /// Nobody uses the sequence any more: has the floor kept at once.
  Action let_go(Time now);

  // ---- state between events

  [[nodiscard]] std::size_t waiting() const { return queue_.size() + (wants_ ? 1 : 0); }
  [[nodiscard]] bool has_turn(std::uint64_t ticket) const { return holder_ == ticket; }
  /// The write that has the turn; 0: none.
  [[nodiscard]] std::uint64_t holder() const { return holder_; }
  /// True if nothing is lost with it.
  [[nodiscard]] bool idle() const {
    return holder_ == 0 && waiting() == 0 && state_ == State::idle && !keep_at_;
  }
  /// The next number to give out; nothing if it is not known, or there is none up to max.
  [[nodiscard]] std::optional<std::int64_t> next() const;
  /// Why the store gives no numbers; null if it does, or was not asked.
  [[nodiscard]] const Error* failure() const { return failure_ ? &*failure_ : nullptr; }
  /// True if failure() is the missing unique index.
  [[nodiscard]] bool is_unguarded() const { return failure_ && is_unguarded_; }

 private:
  enum class State { idle, woken, asking };
  struct Waiting {
    std::uint64_t ticket;
    std::uint64_t n;
    Haste haste;
  };

  [[nodiscard]] std::optional<Error> refusal(Time now) const;
  [[nodiscard]] Result<Range> numbers(std::uint64_t n) const;
  [[nodiscard]] Result<Range> grant(std::uint64_t ticket, std::uint64_t n);
  [[nodiscard]] bool goes_ahead() const {
    return !queue_.empty() && queue_.front().haste == Haste::ahead;
  }
  [[nodiscard]] bool wants_look() const;
  void end_turn();
  void serve(Action& action);
  void refuse_all(const Error& error, Action& action);
  void request(Action& action);
  void found(std::optional<std::int64_t> most, Time now, Action& action);
  void note_highest(std::int64_t number, Time now, Action& action);

  const GaplessSpec spec_;
  std::optional<Int128> next_;            // the number to give out next, if it is known
  bool is_sure_ = false;                  // no failover can make a number before next_ free again
  std::uint64_t holder_ = 0;              // of the turn; 0: nobody
  std::optional<std::uint64_t> wants_;    // how many other numbers the holder waits for
  GaplessLook look_ = GaplessLook::sure;  // for the holder
  std::deque<Waiting> queue_;

  State state_ = State::idle;
  GaplessJob job_{};              // of State::asking
  bool is_stale_ = false;         // the turn that wanted job_ is over
  bool asked_meanwhile_ = false;  // a write has come since job_ began
  bool is_used_ = false;          // some write has had the turn
  bool announced_ = false;        // until the first look succeeds
  bool stopped_ = false;
  std::optional<Error> failure_;  // of the last look
  Time failed_at_{};
  bool is_unguarded_ = false;

  std::optional<std::int64_t> highest_;  // ever stored, as far as is known
  std::optional<std::int64_t> kept_;     // the floor, as the store has it
  std::optional<Time> keep_at_;          // when to keep highest_
};

}  // namespace idproxy::ids
