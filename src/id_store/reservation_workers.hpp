#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "id_store/counter_workers.hpp"
#include "id_store/mongo.hpp"
#include "id_store/reservation_collection.hpp"
#include "id_store/reservation_queue.hpp"
#include "id_store/reservation_sweeper.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/base/clock.hpp"

namespace idproxy::id_store {

/// The collections of reservations of this process's rules. Four threads make reservations, release
/// them, and look whether that is possible: at once when a rule names a collection, every 2 s while
/// it is not, else once a minute. One more thread deletes orphans. Thread-safe.
class ReservationWorkers {
 public:
  static constexpr std::chrono::seconds kLookAgain{2};
  static constexpr std::chrono::seconds kLookEvery{60};
  /// However often requests fail.
  static constexpr std::chrono::seconds kLookAfterFailure{1};
  /// The first pass of the sweeper begins at random within this time.
  static constexpr std::chrono::seconds kFirstSweepWithin{5};
  /// The next pass after one that failed.
  static constexpr std::chrono::seconds kSweepAgain{60};

  enum class Sweeper { on, off };
  /// The references must outlive it. The threads start with the first collection.
  ReservationWorkers(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
                     ReservationCollection::Missing missing, Sweeper sweeper);
  ReservationWorkers(const ReservationWorkers&) = delete;
  ReservationWorkers& operator=(const ReservationWorkers&) = delete;
  /// Waits for the threads, as long as it takes.
  ~ReservationWorkers();

  /// Names all collections of the newest watch. Those of older ones serve who still uses them, but
  /// nobody looks at them any more.
  void use(const std::vector<ids::ReserveSpec>& specs, std::uint64_t watch);
  /// `watch` as in CounterWorkers::counter: rules of an older watch get the collection as the
  /// newest one has it.
  [[nodiscard]] std::shared_ptr<ids::Reservations> reservations(const ids::ReserveSpec& spec,
                                                                std::uint64_t watch);
  /// Waits until every collection has been looked at once, at most for `limit`.
  void await_looks(std::chrono::milliseconds limit);

  /// Why values cannot be reserved now; nothing: they can.
  [[nodiscard]] std::optional<CounterWorkers::Obstacle> obstacle(
      const ids::ReserveSpec& spec) const;
  /// Changes whenever an answer of obstacle() may have changed.
  [[nodiscard]] std::uint64_t version() const { return version_.load(); }
  /// All obstacles, with the fields of the documents.
  [[nodiscard]] std::vector<CounterWorkers::NotReady> not_ready() const;
  /// The requests that wait.
  [[nodiscard]] std::size_t waiting() const;

  /// Releases what is to be released, and ends the threads. False if one still runs after `limit`.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

 private:
  using Time = std::chrono::nanoseconds;  // of the clock, monotonic
  using Lock = std::unique_lock<std::mutex>;
  struct Collection {
    ReservationCollection documents;
    ReservationSweeper sweeper;  // used only by the sweeping thread
    std::shared_ptr<ReservationQueue> queue{};
    std::string sweep_failure{};  // that the log has; of the sweeping thread
    // Under the lock.
    std::uint64_t watch = 0;
    bool queued = false;
    bool looking = false;
    bool looked = false;
    Time look_at{};
    Time sweep_at{};
    std::optional<CounterWorkers::Obstacle> obstacle{};
  };
  using Shared = std::shared_ptr<Collection>;
  struct Task {
    enum class Kind { look, queue };
    Kind kind;
    Shared collection;
  };

  void wake(const std::weak_ptr<Collection>& weak);
  void run();
  void do_job(const Shared& shared);
  void look(Lock& lock, const Shared& collection);
  void run_sweeper();
  void sweep(Lock& lock, const Shared& collection);
  static void tell(Collection& collection, const ReservationSweeper::Swept& swept);

  // Under the lock.
  Shared get(const ids::ReserveSpec& spec, std::uint64_t watch);
  [[nodiscard]] Shared make(const ids::ReserveSpec& spec);
  void retire(const Shared& collection);
  void start_threads();
  void enqueue(const Shared& collection);
  [[nodiscard]] std::optional<Task> next(Lock& lock);
  [[nodiscard]] std::vector<Shared> all() const;
  [[nodiscard]] Time at_random(Time within);

  const mongo::Pool& pool_;
  const Clock& clock_;
  StoreMetrics& metrics_;
  const ReservationCollection::Missing missing_;
  const Sweeper sweeper_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  std::condition_variable looked_;
  std::map<std::string, Shared> collections_;  // by "db.collection"
  std::vector<Shared> retired_;                // in use, but not by the newest watch
  std::uint64_t newest_watch_ = 0;
  // Read without the lock, because every insert asks. A reader of the new version then waits for
  // the lock in obstacle().
  std::atomic<std::uint64_t> version_{0};
  std::deque<Shared> queue_;
  std::vector<std::thread> threads_;
  std::size_t running_ = 0;
  bool stopping_ = false;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace idproxy::id_store
