#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "id_store/counter_document.hpp"
#include "id_store/reports.hpp"
#include "id_store/scheduler.hpp"
#include "id_store/store_metrics.hpp"
#include "id_store/things.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/store.hpp"

namespace idproxy::id_store {

/// A counter to read, and what its cache knew when the read began.
struct WatchedCounter {
  std::shared_ptr<ids::BlockCache> cache;
  ids::CounterSpec spec;
  ids::WatchMark mark;
};

/// Reads where the counters stand, and tells their caches: a value that went back is found without
/// waiting for the next block. Sends one find per collection, or per thousand counters of one, to
/// the primary:
///
///   {find: collection, filter: {key_field: {$in: [key, …]}, …filter}}
///
/// Counters that it cannot read, ranges that are missing, and values that are no integers are
/// passed over: the next allocation says what is wrong. The marks must be from before this call.
void read_counters(mongo::Client& client, std::span<const WatchedCounter> counters);

/// The counters of this process, each a task that does its jobs. While the store is down, one
/// counter checks once a second whether it is back, even if nobody needs numbers. Otherwise another
/// task reads all counters that were used lately every four seconds, to see whether one has gone
/// back or was removed.
///
/// A counter that rules announce is checked (CounterDocument::check) before anybody needs numbers.
/// One that gives none for want of an index, a privilege or a scan is checked every 2 s until it
/// does, so that it serves inserts soon after the cause has gone. Ranges are counters, too, but
/// Ranges checks and reports them. Thread-safe.
class Counters {
 public:
  /// How soon to check again a counter that is not ready.
  static constexpr std::chrono::seconds kCheckAgain{2};
  /// The same while its collection is being read: the result is not valid for long.
  static constexpr std::chrono::milliseconds kCheckPending{500};
  /// How long to go on with that for a counter that nobody announced, since clients can invent any
  /// number of them. Afterwards the next insert asks.
  static constexpr std::chrono::seconds kChecksLast{60};

  /// The arguments must outlive it, the scheduler's threads must not.
  Counters(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
           CollectionScans& scans, Scheduler& scheduler);

  using Fields = std::span<const ids::CounterField>;

  /// The counter for `spec`, from which a rule fills `fields`: its own, and that of reservations.
  /// Several rules of one watch may share a document: the counter then uses the first rule's spec
  /// and all fields.
  ///
  /// If the first spec of a newer watch differs from the one before, the counter adopts it and
  /// keeps the numbers that it holds (BlockCache::change). If the step or the value's meaning
  /// differs, the held numbers do not fit: the counter begins anew, as after a restart, and
  /// gives the numbers back, or loses them if its document has moved on. If nothing differs, an
  /// exhausted counter asks again, because the operator may have removed the cause.
  [[nodiscard]] std::shared_ptr<ids::BlockCache> counter(const ids::CounterSpec& spec,
                                                         Fields fields, std::uint64_t watch);

  /// The same for a rule's own counter, which is then checked at once.
  [[nodiscard]] std::shared_ptr<ids::BlockCache> announce(const ids::CounterSpec& spec,
                                                          Fields fields, std::uint64_t watch);
  /// Event: the rules of the watch have asked for all counters that they announce.
  void rules_are_made(std::uint64_t watch);

  /// The counters, ranges excepted, that give no numbers now: exhausted ones, and those that hold
  /// none and cannot get any, as far as is known. While the store is down, all announced ones that
  /// hold none. A counter of a sequence is listed only if it was announced, or if the server
  /// refuses something that all counters need: otherwise one scope would speak for the whole rule.
  [[nodiscard]] std::vector<NotReadyReport> not_ready() const;
  /// The error with which the server refused the last job of the ranges in "db.collection"; nothing
  /// if it did not.
  [[nodiscard]] std::optional<std::string> why_ranges_refused(const std::string& collection) const;
  /// All counters, ranges excepted, with what they have left.
  [[nodiscard]] std::vector<InUse> in_use() const;
  /// Adds the current values.
  void add_to(StoreStatistics& statistics) const;

  /// Refuses requests from now on. The tasks give back the unused numbers, until the scheduler has
  /// stopped or lose_rest() is called.
  void stop();
  /// After stop(): logs what could not be given back.
  void lose_rest();

 private:
  using Time = Scheduler::Time;
  static constexpr ids::CounterJob kAnyNumber{.kind = ids::CounterJob::Kind::allocate, .count = 1};
  struct Counter : Thing<Counter> {
    Counter(Counters& owner, const ids::CounterSpec& spec);
    std::optional<CounterDocument> document;  // of the task
    std::shared_ptr<ids::BlockCache> cache;
    // Under the lock.
    ids::CounterSpec spec;
    bool renew_document = true;  // `document` is not of this spec
    bool announced = false;
    std::optional<ids::Error> obstacle;        // as the last job or check found
    ids::CounterJob refused_job = kAnyNumber;  // which found so
    bool refused_by_job = false;               // the last job met a refusal that no check does
    CounterDocument::Checked checked;          // what the last check found; empty: not ready
    bool demanded = false;         // inserts waited, while the store was preparing the counter
    std::optional<Time> check_at;  // the next check; unset once the counter is ready
    Time checks_end{};             // unless it was announced
    Scheduler::Task task;
  };
  using Shared = std::shared_ptr<Counter>;

  [[nodiscard]] std::optional<Time> run(Counter& counter);
  void do_job(Counter& counter, const ids::CounterJob& job,
              const std::vector<ids::CounterField>& fields);
  void note_reached(Counter& counter);
  void check(Counter& counter, const std::vector<ids::CounterField>& fields);
  [[nodiscard]] std::optional<Time> watch();

  // Under the lock.
  [[nodiscard]] Shared get(const ids::CounterSpec& spec, Fields fields, std::uint64_t watch);
  [[nodiscard]] Shared make(const ids::CounterSpec& spec);
  [[nodiscard]] bool renew(const Shared& counter, const ids::CounterSpec& spec);
  void note(Counter& counter, const ids::CounterJob& job, const ids::CounterReply& reply);
  [[nodiscard]] std::optional<Time> next_turn(const Counter& counter,
                                              std::optional<Time> due) const;
  void sweep();
  [[nodiscard]] bool is_unused(const Shared& counter) const;

  const mongo::Pool& pool_;
  const Clock& clock_;
  StoreMetrics& metrics_;
  CollectionScans& scans_;
  Scheduler& scheduler_;

  Things<Counter, &Counter::cache> counters_;
  // Under its lock.
  std::map<std::string, std::string> refused_ranges_;  // why_ranges_refused()
  std::uint64_t newest_watch_ = 0;
  bool is_watching_ = false;  // watch_ is due
  bool giving_up_ = false;    // no time: do not give back the rest
  Shared looking_;            // the store is down: the counter that checks whether it is back
  std::string down_why_;      // why the store is down
  Time look_at_{};            // the next check
  const Scheduler::Shared watch_ =
      std::make_shared<Scheduler::Task>(Lane::counters, [this] { return watch(); });
};

}  // namespace idproxy::id_store
