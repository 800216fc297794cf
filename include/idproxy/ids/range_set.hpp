#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/number_stock.hpp"
#include "idproxy/ids/range_spec.hpp"
#include "idproxy/ids/refill_pace.hpp"
#include "idproxy/ids/wait_list.hpp"

namespace idproxy::ids {

/// A snapshot of a RangeSet for metrics and status.
struct RangeStatistics {
  std::optional<Error> refusal{};      ///< why requests are refused
  bool at_end = false;                 ///< that is because no range has numbers left
  std::uint64_t held = 0;              ///< numbers in memory
  std::optional<std::int64_t> next{};  ///< the next number to hand out, as far as is known
  std::uint64_t left = 0;              ///< numbers in all ranges together, the held ones included
  std::uint64_t total = 0;             ///< how many numbers the ranges had at first
  std::uint64_t live = 0;              ///< ranges that have numbers left
  std::uint64_t all = 0;               ///< ranges
  std::size_t waiting = 0;             ///< requests that wait for numbers
};

/// Returns the BlockCache of a range: the same object as long as anybody has it.
using OpenRange = std::function<std::shared_ptr<BlockCache>(const RangeState&)>;

/// A range of a RangeSet.
struct KnownRange {
  RangeState state;
  bool live;                            ///< not retired
  std::shared_ptr<BlockCache> cache{};  ///< if it is in KnownRanges::slots or rest
};

/// Which ranges a RangeSet knows, and which of them it uses: guarded by its lock. An index is a
/// position in `all`.
struct KnownRanges {
  RandomSource& random;
  OpenRange open;
  std::vector<KnownRange> all{};     ///< ascending
  std::uint64_t generation = 0;      ///< of the indexes
  std::vector<std::size_t> slots{};  ///< the active ranges
  std::vector<std::size_t> rest{};   ///< others that hold numbers, which are used up first
  std::vector<std::size_t> free{};   ///< live ranges that are not active
  std::size_t turn = 0;              ///< the slot from which the next request takes
  /// It had no numbers when a request took from others.
  std::optional<std::size_t> empty_slot{};
};

/// The ranges of one rule, and the queue of requests that wait for their numbers. Each range is a
/// counter with a BlockCache of its own, which has its numbers, fetches them, gives them back and
/// heals it. This object decides from which ranges a request takes its numbers:
///
/// - Requests take turns at `active` ranges. If none of them holds enough, it takes from several.
/// - sticky: a range stays until it has no number left; then another takes its place. It fetches
///   ahead as any counter.
/// - random: a range stays for one block; then another takes its place. While the next block is
///   being fetched, requests take from the other active ranges.
/// - A range that gives no numbers is retired until found() shows that it has some again.
///
/// The next range is chosen at random, so that proxies rarely meet. Thread-safe; calls the caches'
/// take() under its lock, but everything that may answer a request without it.
class RangeSet final : public NumberStock, public std::enable_shared_from_this<RangeSet> {
 public:
  using Open = OpenRange;

  /// `open` is called under the lock; it must not call this object, nor answer requests. `wake`
  /// makes the store call found() or refuse() soon. `clock` and `random` must outlive the set.
  RangeSet(RangesSpec spec, const Clock& clock, RandomSource& random, Open open,
           std::function<void()> wake);

  // ---- for strategies

  [[nodiscard]] std::int64_t step() const override { return 1; }
  [[nodiscard]] std::uint32_t heals_after() const override { return spec_.counter.heal.after; }
  [[nodiscard]] Draw take(std::uint64_t n, std::vector<Range>& out) override;
  [[nodiscard]] bool holds(std::uint64_t n) const override;
  [[nodiscard]] Ticket ask(std::uint64_t n, std::unique_ptr<Waiter> waiter) override;
  void cancel(std::uint64_t ticket) override;
  void take_back(const std::vector<Range>& ranges) override;
  void collided(const std::vector<std::int64_t>& numbers, bool heal_at_once) override;
  void went_well() override;
  [[nodiscard]] std::string pending() const override {
    constexpr const char* kPending =
        "the proxy looks for the documents of the ranges, or makes them";
    return locked(mutex_, [&] { return is_known_ ? "" : kPending; });
  }

  // ---- for the store

  [[nodiscard]] const RangesSpec& spec() const { return spec_; }
  /// The ranges as they are stored, ascending. From now on, requests get their numbers.
  void found(std::span<const RangeState> ranges);
  /// Requests get `error`, until found().
  void refuse(const Error& error);
  /// The caches may have changed their rules or fields: gets those in use again.
  void reopen();
  [[nodiscard]] RangeStatistics statistics() const;

 private:
  /// Numbers on their way from the store to a range's cache.
  struct Fetch {
    std::uint64_t id;
    std::size_t index;
    std::shared_ptr<BlockCache> cache;
    std::uint64_t n;
  };
  /// Effects that are deferred until the lock is released.
  struct Effects : After {
    std::optional<Fetch> fetch{};
    Ticket stale{};  // to be destroyed
    Grant unused{};
  };
  class FetchWaiter;

  /// Calls event(after) under the lock, and carries out `after` without it.
  template <class Event>
  void handle(const Event& event);
  void start(const Fetch& fetch);
  void fetched(std::uint64_t id, const std::optional<Error>& error);

  // Under the lock.
  [[nodiscard]] std::optional<Grant> grant(std::uint64_t n, bool takes, Effects& after);
  [[nodiscard]] bool draw(std::uint64_t n, std::vector<Range>& out, Effects& after);
  void serve(Effects& after);
  void refuse_waiting(const Error& error, Effects& after);
  void plan(Effects& after);
  [[nodiscard]] std::uint64_t block();
  void give_up(std::size_t index, const Error& error, Effects& after);
  void end(Effects& after);

  const RangesSpec spec_;
  const Clock& clock_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;      // guards all that follows
  bool is_known_ = false;         // found() or refuse() was called
  std::optional<Error> refusal_;  // of all requests
  bool at_end_ = false;           // refusal_ says that no range has numbers left
  KnownRanges ranges_;
  std::vector<std::size_t> collided_;
  WaitList waiting_;
  std::optional<Fetch> fetch_;  // the one under way
  Ticket fetch_ticket_;         // its place in the cache's queue
  std::uint64_t fetches_ = 0;
  std::string last_refusal_;  // of the range asked last; empty: it had numbers, or was at its end
  RefillPace pace_;           // random: of all ranges together
  std::uint64_t used_ = 0;    // numbers handed out that did not return
};

}  // namespace idproxy::ids
