#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "id_store/counter_document.hpp"
#include "id_store/counter_watch.hpp"
#include "id_store/mongo.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/ids/block_cache.hpp"
#include "idproxy/ids/store.hpp"

namespace idproxy::id_store {

/// The counters of this process and the threads that do their jobs. Counters that were woken or are
/// due wait in a queue; each has at most one job at a time. While the store is down, one counter
/// checks once a second whether it is back, even if nobody needs numbers. Otherwise a thread reads
/// all counters that were used lately every ten seconds, to see whether one has gone back.
///
/// A counter that rules announce is checked (CounterDocument::check) before anybody needs numbers.
/// One that gives none for want of an index, a privilege or a scan is checked every 2 s until it
/// does, so that it serves inserts soon after the cause has gone. Ranges are counters, too, but
/// RangeKeeper checks and reports them. Thread-safe.
class CounterWorkers {
 public:
  /// How soon to check again a counter that is not ready.
  static constexpr std::chrono::seconds kCheckAgain{2};
  /// The same while its collection is being read: the result does not hold for long.
  static constexpr std::chrono::milliseconds kCheckPending{500};
  /// How long to go on with that for a counter that nobody announced, since clients can invent any
  /// number of them. Afterwards the next insert asks.
  static constexpr std::chrono::seconds kChecksLast{60};

  /// The arguments must outlive it. The threads start with the first counter.
  CounterWorkers(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
                 CollectionScans& scans);
  CounterWorkers(const CounterWorkers&) = delete;
  CounterWorkers& operator=(const CounterWorkers&) = delete;
  /// Waits for the threads, as long as it takes.
  ~CounterWorkers();

  /// The counter for `spec`. `watch` identifies the watch that asks; newer ones are larger. Several
  /// rules of one watch may share a document: the counter then uses the first rule's spec and all
  /// fields.
  ///
  /// If the first spec of a newer watch differs from the one before, the counter adopts it and
  /// keeps the numbers that it holds (BlockCache::change). If the step, the value's field or its
  /// meaning differs, the held numbers do not fit: the counter begins anew, as after a restart, and
  /// gives the numbers back, or loses them if its document has moved on. If nothing differs, an
  /// exhausted counter asks again, because the operator may have removed the cause.
  [[nodiscard]] std::shared_ptr<ids::BlockCache> counter(const ids::CounterSpec& spec,
                                                         const ids::CounterField& field,
                                                         std::uint64_t watch);

  /// The same for a rule's own counter, which is then checked at once.
  [[nodiscard]] std::shared_ptr<ids::BlockCache> announce(const ids::CounterSpec& spec,
                                                          const ids::CounterField& field,
                                                          std::uint64_t watch);
  /// Waits until every announced counter has been checked or the store is down, at most for
  /// `limit`.
  void await_checks(std::chrono::milliseconds limit);

  /// Why a counter gives no numbers.
  struct Obstacle {
    ids::Error error;
    bool passes = false;     ///< by itself: it has not been checked yet, or is being prepared
    bool by_server = false;  ///< CounterReply::by_server
  };
  struct NotReady {
    Obstacle obstacle;
    std::vector<ids::CounterField> fields;
  };
  /// The counters, ranges excepted, that give no numbers now: exhausted ones, and those that hold
  /// none and cannot get any, as far as is known. While the store is down, all announced ones that
  /// hold none. Of the counters of sequences, only announced ones, and those of which the server
  /// does not do what all need: one scope does not stand for its rule.
  [[nodiscard]] std::vector<NotReady> not_ready() const;
  /// What the server refused of the last job of the ranges in "db.collection"; nothing: it did it.
  [[nodiscard]] std::optional<std::string> why_ranges_refused(const std::string& collection) const;
  struct InUse {
    ids::CounterNumbers numbers;
    std::vector<ids::CounterField> fields;
    std::string sequence{};  ///< as ids::RuleNumbers
    /// Fills in how many numbers there are, in all and of a template's width.
    void count(std::int64_t start, std::int64_t step, std::int64_t max);
  };
  /// All counters, ranges excepted, with what they have left.
  [[nodiscard]] std::vector<InUse> in_use() const;
  /// Adds the current values.
  void add_to(StoreStatistics& statistics) const;

  /// Gives back unused numbers and ends the threads. False if a thread still runs after `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

 private:
  using Time = std::chrono::nanoseconds;  // of the clock, monotonic
  static constexpr ids::CounterJob kAnyNumber{.kind = ids::CounterJob::Kind::allocate, .count = 1};
  struct Counter {
    std::optional<CounterDocument> document;  // used only by the thread that set `running`
    std::shared_ptr<ids::BlockCache> cache;
    // Under the lock.
    ids::CounterSpec spec;
    bool renew_document = true;  // `document` is not of this spec
    std::uint64_t watch = 0;     // the newest
    std::vector<ids::CounterField> fields;
    bool queued = false;
    bool running = false;
    bool woken_meanwhile = false;
    std::optional<Time> due;
    bool announced = false;
    std::optional<Obstacle> obstacle;          // as the last job or check found
    ids::CounterJob refused_job = kAnyNumber;  // which found so
    bool refused_by_job = false;               // the last job met a refusal of the server
    CounterDocument::Checked checked;          // what the last check found; empty: not ready
    bool demanded = false;         // inserts waited, while the store was preparing the counter
    std::optional<Time> check_at;  // the next check; unset once the counter is ready
    Time checks_end{};             // unless it was announced
  };
  using Shared = std::shared_ptr<Counter>;
  /// What a thread does with a counter: its job; if it has none, the other.
  enum class Turn { job, job_or_look, job_or_check };

  void wake(const std::weak_ptr<Counter>& counter);
  void run();
  /// False if there was no job.
  bool do_job(const Shared& counter, const std::optional<ids::CounterJob>& job, Turn turn,
              const std::vector<ids::CounterField>& fields);
  void count(Counter& counter, const ids::CounterJob& job, const ids::CounterReply& reply,
             ids::BlockOutcome outcome);
  static void tell_refusal(Counter& counter);
  static void tell_lost(Counter& counter);
  void note_reached(const Shared& counter);
  void check(const Shared& counter, const std::vector<ids::CounterField>& fields);
  void note(const Shared& counter, const ids::CounterJob& job, const ids::CounterReply& reply);
  void note_demand(const Shared& counter, const ids::CounterReply& reply);
  static void note_ready(Counter& counter);
  bool leave_to_job(Counter& counter);
  void note_range(const Counter& range, const ids::CounterReply& reply);

  // Under the lock.
  [[nodiscard]] Shared get(const ids::CounterSpec& spec, const ids::CounterField& field,
                           std::uint64_t watch);
  [[nodiscard]] Shared make(const ids::CounterSpec& spec);
  void change(Shared& counter, const ids::CounterSpec& spec);
  void retire(const Shared& counter);
  [[nodiscard]] static bool is_sequence(const Counter& counter);
  [[nodiscard]] static bool is_family(const Counter& counter);
  [[nodiscard]] std::optional<Obstacle> why_not_ready(const Counter& counter) const;
  [[nodiscard]] std::vector<Shared> all_and_retired() const;
  void start_threads();
  void enqueue(const Shared& counter);
  void set_due(const Shared& counter, std::optional<Time> due);
  void enqueue_due();
  [[nodiscard]] Turn turn_of(const Shared& counter) const;
  [[nodiscard]] std::optional<Time> next_turn(const Shared& counter, std::optional<Time> due) const;
  [[nodiscard]] Shared next(std::unique_lock<std::mutex>& lock);
  void wait(std::unique_lock<std::mutex>& lock);
  void watch(std::unique_lock<std::mutex>& lock);
  void sweep();
  [[nodiscard]] bool is_unused(const Shared& counter) const;

  const mongo::Pool& pool_;
  const Clock& clock_;
  StoreMetrics& metrics_;
  CollectionScans& scans_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  std::condition_variable checked_;  // a check has ended, or the store is down
  std::map<std::string, Shared, std::less<>> all_;
  std::vector<Shared> retired_;                        // replaced by others, but still in use
  std::map<std::string, std::string> refused_ranges_;  // why_ranges_refused()
  std::size_t sweep_at_;
  std::uint64_t newest_watch_ = 0;
  std::deque<Shared> queue_;
  std::deque<Shared> new_;  // never had a number; served last, since clients can invent new names
  std::set<std::pair<Time, Shared>> due_;
  std::optional<Time> watch_at_;  // nothing: no counter is in use
  std::vector<std::thread> threads_;
  std::size_t running_ = 0;
  bool stopping_ = false;
  bool ending_ = false;     // all counters are queued to give back; the threads end after that
  bool giving_up_ = false;  // no server or no time: do not give back the rest
  Shared looking_;          // the store is down: the counter that checks whether it is back
  std::string down_why_;    // why the store is down
  Time look_at_{};          // the next check
};

}  // namespace idproxy::id_store
