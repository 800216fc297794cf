#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/id_store/watch.hpp"

namespace idproxy::id_store {

struct Options {
  std::string uri;  ///< connection string of the servers that hold the store
  std::string db = "idproxy";
  std::chrono::milliseconds wtimeout{5000};
};

/// The control plane: counters and what is known of collections, kept in the user's own servers.
/// The only user of libmongoc's client; has a connection pool and threads of its own, so that a
/// store that hangs holds nobody else up. Thread-safe.
class Store final {
 public:
  /// Connects in the background; never fails for what a server does. `clock` outlives the store.
  /// The URI has been checked (config).
  Store(const Options& options, const Clock& clock);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  /// The store for these rules, in file order: at the start, and with each reload, whether or not
  /// they differ. What is known of collections goes on to be known, so that a rule that has not
  /// changed is as ready as before; what is new is looked at once more. Only the newest watch
  /// writes to the log and makes indexes; those before it serve as long as they are used.
  ///
  /// The counters are the same ones, with the numbers that this process holds. Whoever asks for a
  /// counter first through a new watch changes it (CounterWorkers::counter).
  [[nodiscard]] std::shared_ptr<Watch> watch(std::vector<WatchedRule> rules);

  /// Gives back what is unused, as far as that can be done within `limit`, and ends the threads.
  /// Nothing may be asked of it, or of its watches, afterwards. False if a thread still waits for a
  /// server: then the process must end without destroying this object.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

  [[nodiscard]] StoreStatistics statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::id_store
