#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "id_store/machine_documents.hpp"
#include "id_store/reports.hpp"
#include "id_store/scheduler.hpp"
#include "id_store/store_metrics.hpp"
#include "id_store/things.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/machine_lease.hpp"

namespace idproxy::id_store {

/// The machine numbers of this process, one for each lease that rules name, and each a task: it
/// claims a number, renews the lease, and releases it when nobody uses it any more. Thread-safe.
class MachineLeases {
 public:
  /// The arguments must outlive it, the scheduler's threads must not.
  MachineLeases(const mongo::Pool& pool, StoreMetrics& metrics, Scheduler& scheduler,
                MachineDocuments::Claims claims)
      : pool_(pool), metrics_(metrics), scheduler_(scheduler), claims_(claims) {}

  [[nodiscard]] std::shared_ptr<ids::MachineLease> lease(const ids::LeaseSpec& spec,
                                                         const ids::CounterField& field,
                                                         const ids::Sources& sources,
                                                         std::uint64_t watch);
  /// As of the counters.
  void rules_are_made(std::uint64_t watch) {
    leases_.rules_are_made(watch, [](const Shared& /*lease*/) {});
  }
  /// The leases without a number now.
  [[nodiscard]] std::vector<NotReadyReport> not_ready() const;
  /// All of them, with the fields that rules fill.
  [[nodiscard]] std::vector<std::pair<ids::MachineNumber, std::vector<ids::CounterField>>> numbers()
      const;
  /// Refuses requests from now on. The tasks release the numbers.
  void stop();

 private:
  struct Lease : Thing<Lease> {
    Lease(MachineLeases& owner, std::string lease_key);
    const std::string key;
    std::shared_ptr<ids::MachineLease> machine;
    std::weak_ptr<ids::MachineLease> lent;  // the same object; gone when nobody uses it
    // Of the task.
    MachineDocuments documents;
    std::string reported;  // the reason that the log has
    Scheduler::Task task;
  };
  using Shared = std::shared_ptr<Lease>;

  [[nodiscard]] std::optional<Scheduler::Time> run(Lease& lease);

  const mongo::Pool& pool_;
  StoreMetrics& metrics_;
  Scheduler& scheduler_;
  const MachineDocuments::Claims claims_;
  // The time up to which any lease has made ids, also one that is forgotten.
  const std::shared_ptr<std::atomic<std::int64_t>> used_ =
      std::make_shared<std::atomic<std::int64_t>>(0);
  Things<Lease, &Lease::machine> leases_;  // by LeaseSpec::key()
};

}  // namespace idproxy::id_store
