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
#include "idproxy/ids/block_supply.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/draw.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/held_numbers.hpp"
#include "idproxy/ids/number_stock.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// A snapshot of a BlockCache for metrics and status.
struct CounterStatistics {
  std::uint64_t held;  ///< numbers that requests can take now
  /// The number to hand out next, as far as is known; nothing if none ever came from the store, or
  /// max is reached.
  std::optional<std::int64_t> next;
  std::optional<std::uint64_t> left;  ///< from `next` to max; nothing if none ever came
  std::uint64_t block_size;           ///< numbers in the next block
  std::size_t waiting;                ///< requests that wait for numbers
  bool exhausted;                     ///< has no number and gets none from the store
  bool at_max;                        ///< exhausted because its max is reached
  std::string reason;                 ///< why it is exhausted; else empty
};

/// The numbers of one counter that this process holds, and the queue of requests that wait for
/// more. Its BlockSupply decides when to ask the store. Thread-safe: one lock, held for a handful
/// of instructions per insert command. Ownership is shared: the strategies of several rules, grants
/// under way and the store refer to it.
///
/// Hands numbers out in their order. A request for more numbers than are held waits in the queue.
/// The cache wakes the store when fewer than a threshold are left (docs/strategies.md#block-size),
/// so that in steady state no request waits. It answers waiting requests and wakes the store after
/// it has released the lock.
class BlockCache final : public NumberStock, public std::enable_shared_from_this<BlockCache> {
 public:
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
  [[nodiscard]] std::uint32_t heals_after() const override;
  [[nodiscard]] Draw take(std::uint64_t n, std::vector<Range>& out) override;
  [[nodiscard]] Ticket ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) override;
  void cancel(std::uint64_t ticket) override;
  /// Takes back unused numbers, which return to their place in the order: mostly the front. Drops
  /// numbers from before a heal.
  void take_back(const std::vector<Range>& ranges) override;
  /// From the start of the heal to its end, take() needs the store.
  void collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) override;
  void went_well() override;
  /// Nobody needs numbers for a while: gives back those that it holds.
  void let_go();

  // ---- for the store: begin() and finish() alternate

  /// The next job, if there is one to do now. Nothing while a job is under way.
  [[nodiscard]] std::optional<CounterJob> begin();
  /// Takes the result of the job. Wakes the store if there is more to do at once. due() may have
  /// changed.
  BlockOutcome finish(CounterReply reply);
  /// When to call begin() without being woken: for a retry after a failure, or to give back unused
  /// numbers. In monotonic time; nothing: never. Changes with begin() and finish().
  [[nodiscard]] std::optional<std::chrono::nanoseconds> due() const;
  /// Unused numbers that were lost since the last call, because the counter has passed them: for
  /// the log. There may be some after begin() and finish().
  [[nodiscard]] std::vector<Range> take_lost();
  /// The process ends without the store: drops the held numbers, and returns them for the log.
  [[nodiscard]] std::vector<Range> lose_all();
  /// Call it before the counter is read to see whether it has gone back. Nothing: it need not be
  /// read now.
  [[nodiscard]] std::optional<WatchMark> watch_mark();
  /// The counter was read after watch_mark() had returned `mark`: its next number would be `next`.
  /// If that is behind, wakes the store for a job that confirms it.
  void watched(std::int64_t next, const WatchMark& mark);
  /// Why requests are refused with Errc::exhausted; nothing if none was refused since the last
  /// answer of the store or ask_again(). The first refusal outside finish() wakes the store.
  [[nodiscard]] std::optional<std::string> refusal() const;
  [[nodiscard]] std::string pending() const override;
  /// The process ends: refuses all requests, waiting and new, and from now on begin() returns at
  /// most a give_back. Does not wake the store.
  void stop();
  /// True if nothing is lost with this object: it never got a number, no request waits, and no job
  /// is under way.
  [[nodiscard]] bool forgettable() const;
  /// True if it never got a number.
  [[nodiscard]] bool is_new() const;
  /// True if it holds no number, no request waits and nothing is under way. Only how far the
  /// counter had come is lost with it.
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] CounterStatistics statistics() const;
  /// CounterStatistics::held; 0 after stop().
  [[nodiscard]] std::uint64_t held() const;

 private:
  // The caller of these holds the lock.
  [[nodiscard]] bool has(std::uint64_t n) const;
  [[nodiscard]] Moment moment() const { return {clock_.monotonic(), waiting_.needed()}; }
  void note_lost(const std::vector<Range>& lost);
  void apply(const SupplyAction& action, After& after);
  void serve(After& after);
  void serve_or_refuse(const Error& error, After& after);
  [[nodiscard]] Grant grant(std::uint64_t n);

  const Clock& clock_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;  // guards all that follows, except held_.steps()
  std::uint64_t threshold_;   // take() wakes the store below this
  WaitList waiting_;
  HeldNumbers held_;
  std::vector<Range> lost_;  // until take_lost()
  BlockSupply supply_;
};

}  // namespace idproxy::ids
