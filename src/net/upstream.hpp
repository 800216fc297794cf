#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "backoff.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/rewrite/members.hpp"

namespace idproxy::net {

/// A host of the connection string that is no member for so long, since it cannot be reached or
/// says so, does not stand for one any more: that one is looked for under its own name. Longer than
/// a restart takes: the other listener is closed, with its clients, when the host comes back.
inline constexpr std::chrono::minutes kLongDown{5};

/// One server and the listener that stands for it. Shared by that listener and by all connections
/// to the server, which may outlive it. Thread-safe: what is not atomic does not change once the
/// listener is open.
struct Upstream {
  explicit Upstream(Route both) : route(std::move(both)), name(route.upstream.text()) {}

  /// Something has come from it, on a connection that was made then. One from before the trouble
  /// began says nothing: those that were let in may go on while nobody else is.
  void heard(std::chrono::nanoseconds connected) {
    const std::int64_t since = down_since.load(std::memory_order_relaxed);
    if (since != 0 && connected.count() > since) is_back(since);
  }

  Route route;
  const std::string name;  ///< of the server, for logs
  rewrite::ServerId id = 0;
  Backoff backoff;
  std::atomic<std::uint32_t> connections{0};       ///< of clients, open now
  std::atomic<std::uint64_t> connect_failures{0};  ///< since the start
  std::atomic<bool> primary{false};                ///< as far as is known
  std::atomic<bool> alias{false};                  ///< its set has another name for it
  std::atomic<std::int64_t> down_since{0};   ///< nanoseconds of the monotonic clock; 0: it is not
  std::atomic<std::int64_t> down_logged{0};  ///< when the log said so last

 private:
  void is_back(std::int64_t since);
};

}  // namespace idproxy::net
