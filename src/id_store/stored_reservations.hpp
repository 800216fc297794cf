#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "id_store/reports.hpp"
#include "id_store/reservation_collection.hpp"
#include "id_store/reservation_queue.hpp"
#include "id_store/reservation_sweeper.hpp"
#include "id_store/scheduler.hpp"
#include "id_store/store_metrics.hpp"
#include "id_store/things.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {

/// The collections of reservations of this process's rules. Each has three tasks: one makes and
/// releases reservations; one looks whether that is possible, at once when a rule names the
/// collection, every 2 s while it is not, else once a minute; one deletes orphans. Thread-safe.
class StoredReservations {
 public:
  static constexpr std::chrono::seconds kLookAgain{2};
  static constexpr std::chrono::seconds kLookEvery{60};
  /// However often requests fail.
  static constexpr std::chrono::seconds kLookAfterFailure{1};
  /// The first sweep begins at random within this time, once an inspection has found that
  /// reservations are possible.
  static constexpr std::chrono::seconds kFirstSweepWithin{5};
  /// The next one after a sweep that failed.
  static constexpr std::chrono::seconds kSweepAgain{60};

  enum class Sweeper { on, off };
  /// Counts in `version` what may change an answer of obstacle(). The references must outlive it,
  /// the scheduler's threads must not.
  StoredReservations(const mongo::Pool& pool, const Clock& clock, StoreMetrics& metrics,
                     ids::Store::Version& version, Scheduler& scheduler,
                     ReservationCollection::Missing missing, Sweeper sweeper);

  /// Names all collections of the newest watch. Those of older ones serve who still uses them, but
  /// nobody looks at them any more.
  void use(const std::vector<ids::ReserveSpec>& specs, std::uint64_t watch);
  /// If a newer watch has another spec, the collection is looked at anew.
  [[nodiscard]] std::shared_ptr<ids::Reservations> reservations(const ids::ReserveSpec& spec,
                                                                std::uint64_t watch);

  /// Why values cannot be reserved now; nothing: they can.
  [[nodiscard]] std::optional<ids::Error> obstacle(const ids::ReserveSpec& spec) const;
  /// All obstacles, with the fields of the documents.
  [[nodiscard]] std::vector<NotReadyReport> not_ready() const;
  /// The requests that wait.
  [[nodiscard]] std::size_t waiting() const;

  /// Refuses requests from now on. The tasks release what is to be released.
  void stop();

 private:
  struct Collection : Thing<Collection> {
    Collection(StoredReservations& owner, const ids::ReserveSpec& spec);
    ReservationCollection documents;
    ReservationSweeper sweeper;  // of the task `sweeps`
    std::shared_ptr<ReservationQueue> queue;
    std::string sweep_failure;  // that the log has; of the task `sweeps`
    // Under the lock.
    std::optional<ids::Error> obstacle;
    Scheduler::Task reserves;
    Scheduler::Task looks;
    Scheduler::Task sweeps;
  };
  using Shared = std::shared_ptr<Collection>;

  void reserve(Collection& collection);
  [[nodiscard]] std::optional<Scheduler::Time> prepare(Collection& collection);
  [[nodiscard]] std::optional<Scheduler::Time> sweep(Collection& collection);

  // Under the lock.
  [[nodiscard]] bool is_in_force(const Collection& collection) const {
    return collections_.is_in_force(collection.documents.spec().ns(), collection);
  }
  [[nodiscard]] std::shared_ptr<ReservationQueue> get(const ids::ReserveSpec& spec,
                                                      std::uint64_t watch);

  const mongo::Pool& pool_;
  const Clock& clock_;
  StoreMetrics& metrics_;
  ids::Store::Version& version_;
  Scheduler& scheduler_;
  const ReservationCollection::Missing missing_;
  const Sweeper sweeper_;

  Things<Collection, &Collection::queue> collections_;  // by "db.collection"
  // Under its lock.
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace idproxy::id_store
