#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "id_store/inspector_collections.hpp"
#include "id_store/mongo.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/store.hpp"

namespace idproxy::id_store {

/// Looks at the collections that rules touch, as far as the store's user may: which are views or
/// time-series collections, which unique indexes there are, how many documents. It has a thread of
/// its own, and one more where rules want indexes to be made, which can take hours. Thread-safe.
class Inspector {
 public:
  /// Begins to look at once; with no rules there is nothing to do and no thread. `pool` and `clock`
  /// outlive it.
  Inspector(const Options& options, const mongo::Pool& pool, const Clock& clock);
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;
  /// Waits for the threads, as long as it takes: see stop().
  ~Inspector();

  // As id_store::Store's.
  void await_first_look(std::chrono::milliseconds limit);
  std::shared_ptr<ids::Fill> fill(std::string_view ns, std::string_view field);
  ids::Standing standing(std::size_t rule_index, std::string_view db, std::string_view collection);
  [[nodiscard]] std::vector<ids::NotReady> not_ready(std::size_t most_per_rule) const;
  [[nodiscard]] std::uint64_t version() const { return version_.load(std::memory_order_acquire); }

  /// Ends the threads. False if one still waits for a server after `limit`: then the process must
  /// end without destroying this object.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

 private:
  /// What one of the threads does: answers the questions that are `its`.
  void run(Collections::Asks its, const mongo::Pool& pool);
  void tell(std::unique_lock<std::mutex>& lock);
  void wait(std::unique_lock<std::mutex>& lock, Collections::Asks its);

  const mongo::Pool& pool_;
  const Clock& clock_;
  std::unique_ptr<mongo::Pool> patient_;  // for making indexes; null if no rule wants that
  std::atomic<std::uint64_t> version_{1};

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  Collections collections_;
  bool stopping_ = false;
  int running_ = 0;
  std::thread looks_;
  std::thread makes_indexes_;
};

}  // namespace idproxy::id_store
