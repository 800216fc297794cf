#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "id_store/counters.hpp"
#include "id_store/range_documents.hpp"
#include "id_store/reports.hpp"
#include "id_store/scheduler.hpp"
#include "id_store/things.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/ids/range_set.hpp"
#include "idproxy/ids/source.hpp"

namespace idproxy::id_store {

/// The ranges of this process's rules. For each rule, a task looks at their documents: at once when
/// a rule announces them, every 2 s while they give no numbers, else once a minute, since others
/// take numbers, too. The numbers come from the Counters, where each range in use is a counter.
/// Thread-safe.
class Ranges {
 public:
  static constexpr std::chrono::seconds kLookEvery{60};
  static constexpr std::chrono::seconds kLookAgain{2};
  /// No sooner, however often requests fail.
  static constexpr std::chrono::seconds kLookAtMostEvery{1};

  /// The arguments must outlive it, the scheduler's threads must not.
  Ranges(const mongo::Pool& pool, const Clock& clock, Counters& counters, Scheduler& scheduler,
         RangeDocuments::Missing missing);

  /// The ranges of a rule. `fields`: as for counters. If a newer watch has another spec, they begin
  /// anew.
  [[nodiscard]] std::shared_ptr<ids::RangeSet> ranges(const ids::RangesSpec& spec,
                                                      Counters::Fields fields,
                                                      const ids::Sources& sources,
                                                      std::uint64_t watch);
  /// As of the counters.
  void rules_are_made(std::uint64_t watch) {
    sets_.rules_are_made(watch, [](const Shared& /*set*/) {});
  }

  /// The ranges that give no numbers now.
  [[nodiscard]] std::vector<NotReadyReport> not_ready() const;
  /// The numbers that are left in the ranges that have been found.
  [[nodiscard]] std::vector<InUse> in_use() const;
  /// Adds the current values.
  void add_to(StoreStatistics& statistics) const;

 private:
  struct Set : Thing<Set> {
    Set(Ranges& owner);
    std::shared_ptr<ids::RangeSet> ranges;
    // Of the task.
    std::uint64_t warn_below = 0;  // numbers left; 0: as many as a tenth of all
    bool told_end = false;
    // Under the lock.
    bool looked = false;
    Scheduler::Time looked_at{};
    std::string unreached;  // why the last reading reached no server; empty: it reached one
    Scheduler::Task task;
  };
  using Shared = std::shared_ptr<Set>;

  [[nodiscard]] Shared make(const ids::RangesSpec& spec, const ids::CounterField& field,
                            const ids::Sources& sources);
  [[nodiscard]] std::shared_ptr<ids::BlockCache> open(const ids::CounterSpec& range,
                                                      const Set& set);
  [[nodiscard]] std::optional<Scheduler::Time> read(Set& set);
  [[nodiscard]] std::vector<Shared> in_force() const;

  const mongo::Pool& pool_;
  const Clock& clock_;
  Counters& counters_;
  Scheduler& scheduler_;
  const RangeDocuments::Missing missing_;

  // Its lock is not held while a RangeSet is called, which calls open() under its own lock.
  Things<Set, &Set::ranges> sets_;  // by collection
};

}  // namespace idproxy::id_store
