#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/ids/block_supply.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/draw.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/held_numbers.hpp"

namespace idproxy::ids {

/// What a BlockCache holds, for people.
struct CounterStatistics {
  std::uint64_t held;        ///< numbers for the next who ask
  std::uint64_t block_size;  ///< of the next block
  std::size_t waiting;       ///< requests
  bool exhausted;
  std::string reason;  ///< why it is exhausted
};

/// The stock of one counter's numbers in this process, and the queue of those who wait for more;
/// its BlockSupply says when the store is asked. Thread-safe: one lock, held for a handful of
/// instructions per insert command. Shared ownership: strategies of several rules, grants under way
/// and the store refer to it.
///
/// Numbers leave in their order. Whoever finds too few queues up; the store is woken when the rest
/// falls below a threshold (docs/strategies.md#block-size), so that in steady state nobody queues.
/// Those who wait are answered, and the store is woken, outside the lock.
class BlockCache final : public Lender, public std::enable_shared_from_this<BlockCache> {
 public:
  static constexpr std::size_t kMostWaiting = 65'536;

  /// `wake`: makes the store call begin() soon; callable from any thread, never blocks. `clock`
  /// outlives the cache.
  BlockCache(const CounterSpec& spec, const Clock& clock, std::function<void()> wake);

  /// What the rule says from now on; place and step are those of before. Numbers that are held
  /// stay, but for those beyond a new max. Another block size counts from the next block on;
  /// `start` and heal.at_start count for a counter that is new. One that was exhausted is asked
  /// again. Does not wake the store, which should call begin() soon.
  void change(const CounterSpec& spec);
  /// If it was exhausted, the next who wants numbers makes the store be asked.
  void ask_again();

  // ---- for strategies

  [[nodiscard]] std::int64_t step() const { return held_.steps().step(); }
  /// heal.after of the rule.
  [[nodiscard]] std::uint32_t heals_after() const;

  /// Takes `n` numbers, as up to a few ranges in their order, appended to `out`, or nothing.
  [[nodiscard]] Draw take(std::uint64_t n, std::vector<Range>& out);
  /// First come, first served, at most kMostWaiting. Answered at once if the numbers have come
  /// meanwhile.
  [[nodiscard]] Ticket ask(std::uint64_t n, std::unique_ptr<Waiter> waiter);
  void cancel(std::uint64_t ticket) override;
  /// Numbers that are used nowhere go to the front. Numbers from before a heal are dropped.
  void take_back(const std::vector<Range>& ranges) override;
  /// Each of `numbers` turned out to be taken already. Heals after as many in a row as the rule
  /// says, or at once; until that is done, take() needs the store. Numbers from before the last
  /// heal do not count.
  void collided(const std::vector<std::int64_t>& numbers, bool heal_at_once);
  /// Ends the row of collisions.
  void went_well();

  // ---- for the store: begin() and finish() alternate

  /// The next job, if there is one to do at this time. Nothing while one is out.
  [[nodiscard]] std::optional<CounterJob> begin();
  /// Wakes the store if there is more to do at once; due() may have changed.
  BlockOutcome finish(CounterReply reply);
  /// When begin() should be called though nobody wakes the store: a retry after a failure, or the
  /// giving back of what is idle. Monotonic; nothing: never. Changes with begin() and finish().
  [[nodiscard]] std::optional<std::chrono::nanoseconds> due() const;
  /// Why requests are refused with Errc::exhausted; nothing: since numbers were allocated last,
  /// none was. The store is woken when it begins.
  [[nodiscard]] std::optional<std::string> refusal() const;
  /// The process ends: nobody is served any more, all who wait are refused, and begin() has at most
  /// give_backs left. Does not wake the store.
  void stop();
  /// True if it holds nothing worth remembering: it never got a number, and nobody waits.
  [[nodiscard]] bool forgettable() const;
  /// True if it never got a number.
  [[nodiscard]] bool is_new() const;
  /// True if it holds no number, and nobody waits: forgetting it forgets how far it had come.
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] CounterStatistics statistics() const;

 private:
  struct Request {
    std::uint64_t n;
    std::unique_ptr<Waiter> waiter;
  };
  /// What is done once the lock is free.
  struct After {
    bool wake = false;
    std::vector<std::pair<std::unique_ptr<Waiter>, Result<Grant>>> answers;

    void run(const BlockCache& cache) {
      if (wake) cache.wake_();
      for (auto& [waiter, grant] : answers) waiter->answered(std::move(grant));
    }
  };

  // All of these under the lock.
  [[nodiscard]] bool has(std::uint64_t n) const;
  [[nodiscard]] StockLevel level() const;
  void apply(const SupplyAction& action, After& after);
  void serve(After& after);
  void serve_or_refuse(const Error& error, After& after);
  [[nodiscard]] Grant grant(std::uint64_t n);

  const Clock& clock_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;                  // guards all that follows, but for held_.steps()
  std::uint64_t threshold_;                   // fewer numbers than this wake the store
  std::map<std::uint64_t, Request> waiting_;  // by ticket
  std::uint64_t tickets_ = 0;
  std::uint64_t needed_ = 0;  // by all who wait
  HeldNumbers held_;
  BlockSupply supply_;
};

}  // namespace idproxy::ids
