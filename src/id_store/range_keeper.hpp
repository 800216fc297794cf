#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "id_store/counter_workers.hpp"
#include "id_store/mongo.hpp"
#include "id_store/range_documents.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/ids/range_set.hpp"
#include "idproxy/ids/strategy.hpp"

namespace idproxy::id_store {

/// The ranges of this process's rules. A thread of its own looks at their documents: at once when a
/// rule announces them, every 2 s while they give no numbers, else once a minute, because the
/// numbers that others take count for what is left. The ranges' numbers come from the
/// CounterWorkers, where each range in use is a counter. Thread-safe.
class RangeKeeper {
 public:
  static constexpr std::chrono::seconds kLookEvery{60};
  static constexpr std::chrono::seconds kLookAgain{2};
  /// However often requests fail.
  static constexpr std::chrono::seconds kLookAtMostEvery{1};

  /// The arguments must outlive the threads of this and of `workers`. The thread starts with the
  /// first ranges.
  RangeKeeper(const mongo::Pool& pool, const Clock& clock, CounterWorkers& workers,
              RangeDocuments::Missing missing);
  RangeKeeper(const RangeKeeper&) = delete;
  RangeKeeper& operator=(const RangeKeeper&) = delete;
  /// Waits for the thread, as long as it takes.
  ~RangeKeeper();

  /// The ranges of a rule. `watch` as in CounterWorkers::counter: rules of an older watch get the
  /// ranges of the newest one; a spec that differs from the one before begins anew.
  [[nodiscard]] std::shared_ptr<ids::RangeSet> ranges(const ids::RangesSpec& spec,
                                                      const ids::CounterField& field,
                                                      const ids::Sources& sources,
                                                      std::uint64_t watch);
  /// Waits until all ranges have been looked at once, at most for `limit`.
  void await_looks(std::chrono::milliseconds limit);

  /// The ranges that give no numbers now.
  [[nodiscard]] std::vector<CounterWorkers::NotReady> not_ready() const;
  /// What the ranges that have been found have left.
  [[nodiscard]] std::vector<CounterWorkers::InUse> in_use() const;
  /// Adds the current values.
  void add_to(StoreStatistics& statistics) const;

  /// Ends the thread. False if it still runs after `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);
  /// Ends the thread, however long it takes.
  void join();

 private:
  using Time = std::chrono::nanoseconds;  // of the clock, monotonic
  using Lock = std::unique_lock<std::mutex>;
  /// The rules that use a set; the set has it, too.
  struct Users {
    // Under the lock.
    std::vector<ids::CounterField> fields{};
    std::uint64_t watch = 0;
  };
  struct Set {
    std::shared_ptr<ids::RangeSet> ranges;
    std::shared_ptr<Users> users;
    // Under the lock.
    bool looked = false;
    Time looked_at{};
    Time look_at{};
    std::string unreached{};  // why the last look reached no server; empty: it reached one
    // Of the thread.
    std::uint64_t warn_below = 0;  // numbers left; 0: as many as a tenth of all
    bool told_end = false;
  };
  using Shared = std::shared_ptr<Set>;

  [[nodiscard]] Shared make(const ids::RangesSpec& spec, const ids::Sources& sources);
  [[nodiscard]] std::shared_ptr<ids::BlockCache> open(const ids::RangesSpec& spec,
                                                      const ids::RangeState& range,
                                                      const Users& users);
  void wake(const std::weak_ptr<Set>& set);
  void run();
  void look(Lock& lock, const Shared& set);
  static void tell(Set& set, const ids::RangeStatistics& statistics);
  [[nodiscard]] std::vector<Shared> all() const;
  [[nodiscard]] Shared next();

  const mongo::Pool& pool_;
  const Clock& clock_;
  CounterWorkers& workers_;
  const RangeDocuments::Missing missing_;

  // Not held while a RangeSet is called, which calls open() under its own lock.
  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  std::map<std::string, Shared> sets_;  // by collection
  bool stopping_ = false;
  bool running_ = false;
  std::thread thread_;
};

}  // namespace idproxy::id_store
