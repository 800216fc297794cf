#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/gapless_job.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/ids/open_transactions.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// A snapshot of a GaplessQueue for metrics and status.
struct GaplessStatistics {
  std::optional<std::int64_t>
      next;             ///< to give out; nothing: not known, or there is none up to max
  std::size_t waiting;  ///< writes that wait for their turn
  std::optional<Error>
      failure;  ///< why the store gives no numbers; nothing: it does, or is not asked
};

/// A sequence without gaps, with the writes of this process that wait for their turn. Decides which
/// write gets which numbers, and when to ask the store. Thread-safe: one lock, held for a handful
/// of instructions. Ownership is shared: the strategies of all io threads and the store refer to
/// it. Answers writes and wakes the store after it has released the lock.
///
/// Writes wait in a queue, and the first of them has the turn. It gets the numbers behind the last
/// one that is stored. At the end of its turn it says how many of them it has stored; if it does
/// not know, the store reads before the next turn:
///
///              known, next write: numbers
///     ┌─ free ────────────────────────────▶ turn ── stored, or nothing sent ──▶ free, known
///     │   ▲ found                            │  └─── fate unknown ────────────▶ free, unknown
///     │   └───────── read ◀── unknown ───────┤
///     │                                      └─── a number was taken: read, and other numbers
///     └─ unknown, nobody waits: nothing happens
///
/// `ticket`s identify writes. They are not 0, and no two writes have the same.
class GaplessQueue final : public Queue, public std::enable_shared_from_this<GaplessQueue> {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic

  static constexpr std::size_t kMostWaiting = 65'536;
  /// For this long after a failure of the store, writes that need it are refused at once.
  static constexpr std::chrono::seconds kFailureLasts{1};
  /// How soon to read again after a failure for a sequence that was announced.
  static constexpr std::chrono::seconds kReadAgain{2};
  /// The shortest time between two jobs that keep the floor.
  static constexpr std::chrono::seconds kKeepEvery{1};

  /// `wake` makes the store call begin() soon; it must be callable from any thread and never block.
  /// `clock` must outlive the queue.
  /// `transactions`: those that have used numbers of any sequence; null: of this one only.
  GaplessQueue(const GaplessSpec& spec, const Clock& clock, std::function<void()> wake,
               std::shared_ptr<TransactionSequences> transactions = nullptr);

  [[nodiscard]] const GaplessSpec& spec() const { return spec_; }

  // ---- for writes

  /// A ticket for one write, which ends with leave(), stored() or unknown().
  [[nodiscard]] std::uint64_t enter(TurnTaker::Takes takes);
  /// A write wants `n` > 0 numbers. The result if there is one now: then it has the turn, or is
  /// refused. Does not queue it. `transaction`: that the write belongs to; empty: none.
  ///
  /// A write on which the one that has the turn may be waiting goes ahead of it, if the numbers are
  /// known and no failover can make an earlier number free again. It does not get the turn: each
  /// number belongs to the write that stores it first.
  [[nodiscard]] std::optional<Result<Range>> take(std::uint64_t ticket, std::uint64_t n,
                                                  const std::string& transaction);
  /// The same, but queues the write. If it has the turn, its numbers are void and it wants others;
  /// `how` says how to find them. `waiter` gets the answer, perhaps before this returns.
  [[nodiscard]] Ticket ask(std::uint64_t ticket, std::uint64_t n, GaplessRead how,
                           const std::string& transaction, std::unique_ptr<Waiter> waiter);
  /// The write waits no longer. It keeps the turn if it has it.
  void cancel(std::uint64_t ticket) override;
  // The write's turn ends. If it does not have the turn, it only waits no longer.
  /// It has stored nothing.
  void leave(std::uint64_t ticket);
  /// The last number that it has stored is `last`, by a majority.
  void stored(std::uint64_t ticket, std::int64_t last);
  /// It is not known what it has stored.
  void unknown(std::uint64_t ticket);

  // ---- for the writes of transactions. Only they can see the numbers that they have used, and
  // they continue after them

  /// The last number that the transaction has used; nothing if it has used none.
  [[nodiscard]] std::optional<std::int64_t> last_of(const std::string& transaction) const;
  /// The transaction of this client has used the numbers up to `last`.
  void note(const TurnTaker& taker, std::int64_t last);
  /// Whose open transaction has used the next number, and not this `transaction`; null: nobody's.
  /// Then the write that has the turn waits in the server for its end, and all others wait for
  /// that.
  [[nodiscard]] std::shared_ptr<const NumberHolder> held_by(const std::string& transaction) const;
  /// True if there is one. For each write: unlike held_by(), it does not search all transactions.
  [[nodiscard]] bool is_held(const std::string& transaction) const {
    return locked(mutex_, [&] { return transactions_.any_other(transaction, clock_.monotonic()); });
  }
  /// The transaction has been committed or aborted, or perhaps. It may have stored numbers without
  /// having had the turn. `is_durable`: it has stored them for good.
  void transaction_ended(const std::string& transaction, bool is_durable);

  // ---- for the store: begin() and finish() alternate

  /// The next job, if there is one to do now. Nothing while a job is under way.
  [[nodiscard]] std::optional<GaplessJob> begin();
  void finish(const GaplessReply& reply);
  /// When to call begin() without being woken; nothing: never.
  [[nodiscard]] std::optional<Time> due() const;
  /// Reads before the first write comes, and again until that succeeds.
  void announce();
  /// Refuses all writes. From now on begin() returns at most a job that keeps the floor.
  void stop();
  /// Nobody uses the queue any more: has the floor kept at once.
  void let_go();
  /// True if nothing is lost with it.
  [[nodiscard]] bool idle() const;
  [[nodiscard]] GaplessStatistics statistics() const;

 private:
  enum class State { idle, woken, asking };
  /// A write's place in the queue.
  enum class Haste {
    ahead,  // the first, and it goes ahead of the one that has the turn
    first,  // before those with Haste::none
    none,
  };
  struct Waiting {
    std::uint64_t ticket;
    std::uint64_t n;
    Haste haste;
  };

  /// Calls event(now, after) under the lock, and carries out `after` without it.
  template <class Event>
  void handle(const Event& event);

  // The caller of all that follows holds the lock.
  [[nodiscard]] bool may_wait_in_server(Time now) const;
  [[nodiscard]] std::optional<Error> refusal(Time now) const;
  [[nodiscard]] Result<Range> grant(std::uint64_t ticket, std::uint64_t n);
  [[nodiscard]] std::optional<Result<Range>> take_turn(std::uint64_t ticket, std::uint64_t n,
                                                       Time now);
  void stop_waiting(std::uint64_t ticket);
  [[nodiscard]] bool end_turn(std::uint64_t ticket);
  void serve(After& after);
  void refuse_all(const Error& error, After& after);
  [[nodiscard]] bool goes_ahead() const {
    return !queue_.empty() && queue_.front().haste == Haste::ahead;
  }
  [[nodiscard]] bool wants_read() const;
  void request(After& after);
  void found(std::optional<std::int64_t> most, Time now, After& after);
  void note_highest(std::int64_t number, Time now, After& after);
  [[nodiscard]] std::size_t waiting() const { return queue_.size() + (wants_ ? 1 : 0); }

  const GaplessSpec spec_;
  const Clock& clock_;
  const std::function<void()> wake_;
  const std::shared_ptr<TransactionSequences> sequences_in_transactions_;

  mutable std::mutex mutex_;             // guards all that follows
  std::optional<Int128> next_;           // the number to give out next, if it is known
  bool is_sure_ = false;                 // no failover can make a number before next_ free again
  std::uint64_t holder_ = 0;             // of the turn; 0: nobody
  std::optional<std::uint64_t> wants_;   // how many other numbers the holder waits for
  GaplessRead how_ = GaplessRead::sure;  // for the holder
  std::deque<Waiting> queue_;
  WaitList waiters_;                     // of the writes in queue_, and of the holder
  std::set<std::uint64_t> have_others_;  // tickets of writes that take several turns
  struct InTransaction {
    std::int64_t last = 0;  // number
    std::shared_ptr<const NumberHolder> client;
  };
  OpenTransactions<InTransaction> transactions_;

  State state_ = State::idle;
  GaplessJob job_{};              // of State::asking
  bool is_stale_ = false;         // the turn that wanted job_ is over
  bool asked_meanwhile_ = false;  // a write has come since job_ began
  bool is_used_ = false;          // some write has had the turn
  bool announced_ = false;        // until the first reading succeeds
  bool stopped_ = false;
  std::optional<Error> failure_;  // of the last reading
  Time failed_at_{};

  std::optional<std::int64_t> highest_;  // ever stored, as far as is known
  std::optional<std::int64_t> kept_;     // the floor, as the store has it
  std::optional<Time> keep_at_;          // when to keep highest_
};

}  // namespace idproxy::ids
