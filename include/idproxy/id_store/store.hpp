#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/known_proxy.hpp"
#include "idproxy/id_store/store_statistics.hpp"
#include "idproxy/id_store/watch.hpp"

namespace idproxy::id_store {

struct Options {
  std::string uri;                       ///< connection string of the servers that hold the store
  std::string uri_key = "upstream.uri";  ///< its key in the configuration, for messages
  std::string db = "idproxy";
  std::chrono::milliseconds wtimeout{5000};
  bool scans = true;  ///< false: never reads whole collections, whatever the rules' `scan` says
};

/// The control plane: manages counters and inspects collections in the user's MongoDB servers. The
/// only part that uses libmongoc's client. Has its own connection pool and threads, so that a store
/// that hangs delays nothing else. Thread-safe.
class Store final {
 public:
  /// Connects in the background; never fails because of a server. `clock` must outlive the store.
  /// The URI must have passed config's checks.
  Store(const Options& options, const Clock& clock);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  /// Makes the store's interface for these rules, in file order. Call it at the start and with each
  /// reload, whether or not the rules differ. The new watch inherits what is known about
  /// collections, so that an unchanged rule stays as ready as before, and checks what is new. Only
  /// the newest watch logs and creates indexes; older ones work as long as they are used.
  ///
  /// All watches share the counters and the numbers that this process holds. The first request for
  /// a counter through a new watch applies the new rule to it (Counters::counter).
  [[nodiscard]] std::shared_ptr<Watch> watch(std::vector<WatchedRule> rules);

  /// Tells the other proxies of this id store who this one is, from now on. Call it after the
  /// start, with each reload, and when something changes. Does nothing as long as no watch has had
  /// rules: the store connects to no server then.
  void introduce(ProxyDescription self);
  /// The proxies of this id store that have been seen lately, this one included; none if it has not
  /// been introduced, or the store does not tell. Does not wait.
  [[nodiscard]] std::vector<KnownProxy> proxies() const;

  /// The proxy will stop once its clients have their answers: none waits for hours any more.
  void drain();
  /// Gives back unused numbers, as far as `limit` allows, and ends the threads. The store and its
  /// watches must not be used afterwards. False if a thread still waits for a server: the process
  /// must then end without destroying this object.
  [[nodiscard]] bool stop(std::chrono::milliseconds limit);

  [[nodiscard]] StoreStatistics statistics() const;

 private:
  friend class Watch;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::id_store
