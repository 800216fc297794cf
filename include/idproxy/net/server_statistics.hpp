#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "idproxy/net/counted.hpp"
#include "idproxy/observability/metrics.hpp"

namespace idproxy::net {

/// What the proxy has done since the start and holds now, in plain numbers. Each is exact, together
/// they are no snapshot.
struct ServerStatistics {
  /// One listener and the server behind it.
  struct Listener {
    std::string listener;           ///< "host:port", as it is listened on
    std::string server;             ///< name of the server: of the configuration, or from its set
    bool up = false;                ///< the last connection to it was made, and answered
    std::uint64_t connections = 0;  ///< of clients, now
    std::uint64_t connect_failures = 0;
  };
  std::vector<Listener> listeners;

  PerCounted<std::uint64_t> counted;
  /// How much longer an insert with a rule took because of us: our own time and the id store's,
  /// without the server's.
  metrics::HistogramValues insert_added;

  std::uint64_t connections_open = 0;  ///< now
  std::uint64_t connections_limit = 0;

  // limits.buffered_messages.
  std::uint64_t buffered_limit = 0;    ///< bytes
  std::uint64_t buffered_bytes = 0;    ///< now
  std::uint64_t buffered_waiting = 0;  ///< connections that wait for room, now
  std::uint64_t buffered_waits = 0;    ///< how often one had to
};

}  // namespace idproxy::net
