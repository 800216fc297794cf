#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/held_numbers.hpp"
#include "idproxy/ids/number_ranges.hpp"
#include "idproxy/ids/number_stock.hpp"
#include "idproxy/ids/refill_pace.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// A snapshot of a BlockCache for metrics and status.
struct CounterStatistics {
  std::uint64_t held;  ///< numbers that requests can take now
  /// The number to hand out next, as far as is known: if no other process gets numbers meanwhile.
  /// Nothing if none ever came from the store, or there are none up to max.
  std::optional<std::int64_t> next;
  std::optional<std::uint64_t> left;  ///< from `next` to max; nothing if none ever came
  std::uint64_t block_size;           ///< numbers in the next block
  std::size_t waiting;                ///< requests that wait for numbers
  bool exhausted;                     ///< has no number and gets none from the store
  Error why;                          ///< it is exhausted
};

/// A process's knowledge of a counter when it sends a command that reads it.
struct WatchMark {
  Int128 end;                ///< the number after the last that the store gave
  std::uint64_t gives_back;  ///< how often numbers were about to be given back
};

/// The state of one counter in this process: the numbers that it holds, the queue of requests that
/// wait for more, and the decision when to ask the store and what its answers mean. Thread-safe:
/// one lock, held for a handful of instructions per insert command. Ownership is shared: the
/// strategies of several rules, grants under way and the store refer to it.
///
/// Hands each number out once, unless it is put back, in their order. A request for more numbers
/// than are held waits in the queue. The cache wakes the store when fewer than a threshold are left
/// (docs/strategies.md#block-size), so that in steady state no request waits. It answers waiting
/// requests and wakes the store after it has released the lock.
///
/// At most one job is under way:
///
///            a request, ran low, …               begin: a job
///     idle ─────────────────────────────▶ woken ────────────────▶ asking
///      ▲ ▲                                  │ begin: none            │
///      │ └──────────────────────────────────┘                        │
///      └─────────────────────────────── finish ──────────────────────┘
///
/// In `idle`, begin() may also come because due() has passed; it then leads to `asking` or back to
/// `idle`. In addition, the cache remembers how the store last answered:
///
///     answers ── failed while requests wait ──▶ down ── any other answer ──▶ as the answer says
///        ├────── exhausted ──▶ exhausted ── after 60 s, or a reload: asked again
///        └──────── pending ──▶ prepares ── any other answer ──▶ as the answer says
///
/// After a failure it asks again every 250 ms, as long as there is demand. While the store prepares
/// the counter, it asks every 100 ms, and requests wait. A heal is due after duplicates, after the
/// counter went back, or from the start (heal.at_start). Until it is done, every job is a heal.
///
/// Only jobs move the counter or learn where it stands: what watched() is told may be old, so it
/// leads to a job that confirms it, and nothing else.
class BlockCache final : public NumberStock, public std::enable_shared_from_this<BlockCache> {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic

  /// How long to wait after a refused heal before the next one.
  static constexpr std::chrono::seconds kNoHealFor{60};
  /// How long to wait before asking the store about an exhausted counter again.
  static constexpr std::chrono::seconds kExhaustedFor{60};
  /// How soon to ask the store again after a failure, while there is demand.
  static constexpr std::chrono::milliseconds kRetryAfter{250};
  /// How soon to ask again while the store prepares the counter.
  static constexpr std::chrono::milliseconds kNotYetFor{100};
  /// How long a counter is watched after the last request for numbers.
  static constexpr std::chrono::seconds kWatchedFor{60};
  /// How long there is demand after the last request for numbers.
  static constexpr std::chrono::seconds kDemandLasts{10};
  /// For this long after a failure, requests are refused at once with its reason. Later, the store
  /// may have recovered without anybody having asked it: a request then asks it and waits for the
  /// answer.
  static constexpr std::chrono::seconds kFailureLasts{1};

  /// `wake` makes the store call begin() soon; it must be callable from any thread and never block.
  /// `clock` must outlive the cache.
  BlockCache(const CounterSpec& spec, const Clock& clock, std::function<void()> wake);

  /// Adopts a changed rule, whose place and step must be those of the old one. Keeps the held
  /// numbers except those beyond a new max. A new block size applies from the next block on.
  /// `start` applies when the store creates the document the next time; heal.at_start has no effect
  /// here. An exhausted counter asks the store again. Does not wake the store, which should call
  /// begin() soon.
  void change(const CounterSpec& spec);
  /// If the counter is exhausted, the next request that finds too few numbers asks the store again.
  void ask_again();

  // ---- for strategies

  [[nodiscard]] std::int64_t step() const override { return held_.steps().step(); }
  [[nodiscard]] std::uint32_t heals_after() const override {
    return locked(mutex_, [&] { return spec_.heal.after; });
  }
  [[nodiscard]] Draw take(std::uint64_t n, std::vector<Range>& out) override;
  [[nodiscard]] bool holds(std::uint64_t n) const override {
    return locked(mutex_, [&] { return has(n) && held_.count() - n >= threshold_; });
  }
  [[nodiscard]] Ticket ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) override;
  void cancel(std::uint64_t ticket) override;
  /// Takes back unused numbers, which return to their place in the order: mostly the front. Ignores
  /// numbers from before a heal, and numbers that this process never had.
  void take_back(const std::vector<Range>& ranges) override;
  /// From the start of the heal to its end, take() needs the store.
  void collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) override;
  void went_well() override {
    locked(mutex_, [&] { collisions_in_a_row_ = 0; });
  }
  /// Nobody needs numbers for a while: gives back those that it holds.
  void let_go();

  // ---- for the store: begin() and finish() alternate

  /// The next job, if there is one to do now. Nothing while a job is under way.
  [[nodiscard]] std::optional<CounterJob> begin();
  /// Takes the result of the job. Wakes the store if there is more to do at once. due() may have
  /// changed.
  BlockOutcome finish(CounterReply reply);
  /// When to call begin() without being woken: for a retry after a failure, or to give back unused
  /// numbers. Nothing: never. Changes with begin() and finish().
  [[nodiscard]] std::optional<Time> due() const;
  /// Unused numbers that were lost since the last call, because the counter has passed them: for
  /// the log. There may be some after begin() and finish().
  [[nodiscard]] std::vector<Range> take_lost() {
    return locked(mutex_, [&] { return held_.take_lost(); });
  }
  /// The process ends without the store: the held numbers are lost, too.
  [[nodiscard]] std::vector<Range> lose_all();
  /// Call it before the counter is read to see whether it has gone back. Nothing: it need not be
  /// read now.
  [[nodiscard]] std::optional<WatchMark> watch_mark();
  /// The counter was read after watch_mark() had returned `mark`: its next number would be `next`;
  /// nothing: there is no counter. If that is behind, wakes the store for a job that confirms it.
  void watched(std::optional<std::int64_t> next, const WatchMark& mark);
  /// Why requests are refused with Errc::exhausted; nothing if none was refused since the last
  /// answer of the store or ask_again(). The first refusal outside finish() wakes the store.
  [[nodiscard]] std::optional<Error> refusal() const {
    return locked(mutex_, [&] { return refused_ ? std::optional(why_) : std::nullopt; });
  }
  [[nodiscard]] std::string pending() const override {
    return locked(mutex_, [&] { return store_ == Store::prepares ? why_.reason : std::string(); });
  }
  /// The process ends: refuses all requests, waiting and new, and from now on begin() returns at
  /// most a give_back. Does not wake the store.
  void stop();
  /// True if nothing is lost with this object: it never got a number, no request waits, and no job
  /// is under way.
  [[nodiscard]] bool forgettable() const {
    return locked(mutex_,
                  [&] { return !held_.end() && waiting_.empty() && state_ != State::asking; });
  }
  /// True if it never got a number.
  [[nodiscard]] bool is_new() const {
    return locked(mutex_, [&] { return !held_.end().has_value(); });
  }
  /// True if a request waits.
  [[nodiscard]] bool is_awaited() const {
    return locked(mutex_, [&] { return !waiting_.empty(); });
  }
  /// True if it holds no number, no request waits and nothing is under way. Only how far the
  /// counter had come is lost with it.
  [[nodiscard]] bool is_empty() const {
    return locked(mutex_, [&] {
      return held_.count() == 0 && waiting_.empty() && state_ == State::idle && heal_ == Heal::none;
    });
  }
  [[nodiscard]] CounterStatistics statistics() const;
  /// CounterStatistics::held; 0 after stop().
  [[nodiscard]] std::uint64_t held() const {
    return locked(mutex_, [&] { return stopped_ ? 0 : held_.count(); });
  }

 private:
  enum class State {
    idle,
    woken,   // the store has been told to call begin()
    asking,  // job_ is under way
  };
  enum class Store {
    answers,
    down,       // the last job failed while requests waited: why_, failed_at_
    prepares,   // the counter has no numbers yet: why_; requests wait
    exhausted,  // the counter has no numbers: why_; not asked before exhausted_until_
  };
  enum class Heal {
    none,
    due,
    due_after_loss,  // the counter went back: it gives no numbers until it is healed
  };

  /// Calls event(now, after) under the lock, and carries out `after` without it.
  template <class Event>
  void handle(const Event& event);

  // The caller of all that follows holds the lock.

  [[nodiscard]] bool has(std::uint64_t n) const;
  [[nodiscard]] Grant grant(std::uint64_t n, bool takes);
  void serve(After& after);
  void refuse_all(const Error& error, After& after);
  [[nodiscard]] std::optional<Error> why_useless(Time now, After& after);

  // When to ask the store, and for what.
  void request(Time now, After& after);
  [[nodiscard]] bool wants_refill() const;
  [[nodiscard]] bool may_ask(Time now) const;
  [[nodiscard]] std::optional<CounterJob> next_job(Time now);
  [[nodiscard]] CounterJob refill(Time now);
  [[nodiscard]] std::optional<CounterJob> give_back();
  void note_demand(Time now);
  void schedule_return(Time now);
  [[nodiscard]] bool is_over(Time now) const;
  [[nodiscard]] std::uint64_t threshold() const;

  // What its answers mean.
  [[nodiscard]] BlockOutcome use(CounterReply& reply, Time now, After& after);
  [[nodiscard]] BlockOutcome allocated(Range range, Time now, After& after);
  [[nodiscard]] BlockOutcome went_back(Time now, After& after);
  [[nodiscard]] BlockOutcome confirmed(CounterReply& reply, Time now, After& after);
  void gave_back(CounterReply::Kind kind);
  void failed(Error why, Time now, After& after);
  void exhaust(Error why, Time now, After& after);
  void answers_again();
  void decide_to_heal(Heal heal);

  const Clock& clock_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;  // guards all that follows
  CounterSpec spec_;
  WaitList waiting_;
  RefillPace pace_;
  std::uint64_t threshold_ = 0;  // take() wakes the store below this
  bool stopped_ = false;

  HeldNumbers held_;

  State state_ = State::idle;
  CounterJob job_{};      // of State::asking
  bool changed_ = false;  // the rule has changed since the job began

  Store store_ = Store::answers;
  Error why_;  // it is down, exhausted, or the store still prepares it
  Time failed_at_{};
  Time exhausted_until_{};
  bool refused_ = false;          // a request, since the counter was found exhausted
  bool fetches_ahead_ = true;     // false from a failure until the store answers
  std::optional<Time> retry_at_;  // after a failure: the next attempt; unset once demand ends

  Heal heal_;
  std::optional<Time> heal_not_before_;
  std::uint64_t collisions_in_a_row_ = 0;

  std::uint64_t seen_taken_ = 0;
  Time demand_at_{};

  bool resting_ = false;  // numbers went back unused: refill only if requests wait
  bool let_go_ = false;   // all that is held goes back at once
  // auto: when the rest of the last block goes back, and of earlier blocks
  std::optional<Time> over_at_;
  std::optional<Time> older_over_at_;
  // fixed sizes: when to check whether numbers lie idle
  std::optional<Time> idle_check_;
  std::uint64_t idle_taken_ = 0;  // numbers handed out at idle_since_
  Time idle_since_{};

  bool suspect_ = false;          // the counter seems to have gone back: to be confirmed
  std::uint64_t gives_back_ = 0;  // see WatchMark
};

}  // namespace idproxy::ids
