#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "id_store/inspection.hpp"
#include "id_store/scheduler.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/watch.hpp"

namespace idproxy::id_store {

/// Checks the collections that rules touch, as far as the store's user may: which are views or
/// time-series collections, their unique indexes, their numbers of documents. Three tasks: requests
/// that nobody waits for; requests that writes wait for; making indexes, which can take hours.
/// Thread-safe.
class Inspector {
 public:
  /// Has no tasks before there are rules. `uri` is for connections of its own to the servers
  /// of `pool`. Counts in `version` what changes in any inspection. The references must outlive it.
  Inspector(std::string uri, const mongo::Pool& pool, const Clock& clock,
            ids::Store::Version& version, Scheduler& scheduler);

  /// Begins at once to check collections for these rules, starting from what is known for the rules
  /// before them. For the same rules, returns the same object.
  [[nodiscard]] std::shared_ptr<Inspection> inspect(std::vector<WatchedRule> rules);

  /// Calls `use` with the inspection and the time, under the lock, and returns its result. If
  /// a request to a server is due then, the threads send it.
  template <class Use>
  auto with(Inspection& inspection, const Use& use) {
    const std::scoped_lock lock(mutex_);
    auto result = use(inspection, clock_.monotonic());
    if (inspection.take_news()) wake();
    return result;
  }
  /// The scheduler, for a task that asks the same servers beside its own; null as long as there
  /// have been no rules, when nothing connects to a server.
  [[nodiscard]] Scheduler* threads();
  /// As Watch's change(), for all inspections.
  [[nodiscard]] std::shared_ptr<void> change(const ids::CatalogChange& change);
  /// As Watch's.
  [[nodiscard]] std::shared_ptr<ids::IndexRoom> index_room(const ids::CatalogChange& in,
                                                           Bytes indexes);
  /// As Watch's.
  void await_first_inspection(const Inspection& inspection, std::chrono::milliseconds limit);

  /// Answers the clients that wait for an IndexRoom, which may take hours, and those that will ask.
  void drain();
  /// Sends no more requests.
  void stop();
  /// As Scheduler::starves().
  [[nodiscard]] bool starves() {
    return scheduler_.starves(Lane::inspector) || scheduler_.starves(Lane::indexes);
  }

 private:
  using Asks = Inspection::Asks;
  using Lock = std::unique_lock<std::mutex>;

  /// A task: sends one of the lane's requests.
  [[nodiscard]] std::optional<Scheduler::Time> run(Asks asks, const mongo::Pool& pool);
  template <class Request>
  void carry_out(const Request& request, const mongo::Pool& pool, Lock& lock);
  /// The tasks do what there is to do.
  void wake();

  // Under the lock.
  void make_tasks(const std::vector<WatchedRule>& rules);
  [[nodiscard]] std::optional<InspectionRequest> next(Asks asks);
  [[nodiscard]] Inspection::Time due(Asks asks) const;
  void tell(Lock& lock);

  const std::string uri_;
  const mongo::Pool& pool_;
  const Clock& clock_;
  ids::Store::Version& version_;
  Scheduler& scheduler_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable learned_;
  std::vector<std::weak_ptr<Inspection>> inspections_;  // the newest last
  bool stopping_ = false;
  std::unique_ptr<mongo::Pool> patient_;  // for making indexes; null if no rule has wanted that
  std::deque<std::shared_ptr<ids::IndexRoom>> rooms_;       // to make
  std::vector<std::weak_ptr<ids::IndexRoom>> asked_rooms_;  // those, and others under way
  bool draining_ = false;
  std::vector<Scheduler::Shared> tasks_;
};

}  // namespace idproxy::id_store
