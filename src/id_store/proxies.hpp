#pragma once

#include <mongoc/mongoc.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "id_store/known_proxies.hpp"
#include "id_store/scheduler.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/known_proxy.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {

/// Tells the other proxies who this one is, and knows them: a task that writes a document into the
/// collection `proxies` of the id store's database (KnownProxies) and reads those of the others.
/// Nothing depends on it. It sends nothing while no primary is known, waits for no majority, and
/// failures are only in the log of level debug. Thread-safe.
class Proxies {
 public:
  static constexpr std::chrono::seconds kEvery{30};
  /// While no primary is known. Nothing is sent then.
  static constexpr std::chrono::seconds kLookAgain{5};
  /// After a refusal, which is probably for lack of a privilege: servers may record each one.
  static constexpr std::chrono::minutes kAfterRefusal{10};
  /// The server deletes documents that are older; see KnownProxies::kListedFor.
  static constexpr std::chrono::seconds kKeptFor{120};

  /// `pool` and `clock` must outlive the threads that run the task. A proxy counts as started now.
  Proxies(const mongo::Pool& pool, std::string db, const Clock& clock);

  /// What to tell from now on, at once for the first time. The threads of `scheduler`, which is the
  /// same in each call, run the task.
  void introduce(ProxyDescription description, Scheduler& scheduler);
  /// Those that have been seen lately, this one included; none if the id store does not tell.
  [[nodiscard]] std::vector<KnownProxy> known() const;
  /// Has the task delete the document, before the scheduler stops.
  void leave();

 private:
  using Time = Scheduler::Time;

  [[nodiscard]] Time run();
  [[nodiscard]] Time introduce_self(mongo::Client& client, const ProxyDescription& self);
  void withdraw();

  const mongo::Pool& pool_;
  const std::string db_;
  const Clock& clock_;
  const Time started_;
  bson_oid_t process_;  // tells this process from one that has taken over its address

  // Of the task.
  bool looks_at_index_ = true;
  bool has_index_ = false;
  std::string listed_as_;  // the _id of the document; empty: there is none

  mutable std::mutex mutex_;  // guards all that follows
  std::optional<ProxyDescription> self_;
  KnownProxies known_;
  bool leaving_ = false;
  Scheduler* scheduler_ = nullptr;
  const Scheduler::Shared task_ =
      std::make_shared<Scheduler::Task>(Lane::inspector, [this] { return run(); });
};

}  // namespace idproxy::id_store
