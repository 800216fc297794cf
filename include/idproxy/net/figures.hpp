#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "idproxy/observability/metrics.hpp"

namespace idproxy::net {

/// What the proxy has done since the start and holds now, in plain numbers. Each is exact, together
/// they are no snapshot.
struct Figures {
  /// One listener and the server behind it.
  struct Listener {
    std::string listener;           ///< "host:port", as it is listened on
    std::string server;             ///< name of the server: of the configuration, or from its set
    bool up = false;                ///< the last connection to it was made, and answered
    std::uint64_t connections = 0;  ///< of clients, now
    std::uint64_t connect_failures = 0;
  };
  std::vector<Listener> listeners;

  // Clients.
  std::uint64_t connections_accepted = 0;
  std::uint64_t connections_open = 0;  ///< now
  std::uint64_t connections_limit = 0;
  // Why connections of clients were ended or turned away by us.
  std::uint64_t refused_max_connections = 0;
  std::uint64_t refused_descriptors = 0;  ///< no file descriptor left for it, or its server's
  std::uint64_t accept_failures = 0;
  std::uint64_t closed_first_byte = 0;
  std::uint64_t closed_tls_handshake = 0;  ///< took too long
  std::uint64_t closed_message = 0;        ///< the rest of a message took too long
  std::uint64_t closed_connect = 0;        ///< no connection to the server
  std::uint64_t closed_protocol = 0;       ///< a peer broke the protocol
  std::uint64_t closed_drain_forced = 0;   ///< at the end of limits.drain, or by a second SIGTERM
  std::uint64_t tls_failures_downstream = 0;
  std::uint64_t tls_failures_upstream = 0;

  // Bytes of messages: TLS's own are not counted.
  std::uint64_t bytes_from_clients = 0;
  std::uint64_t bytes_to_clients = 0;
  std::uint64_t bytes_from_servers = 0;
  std::uint64_t bytes_to_servers = 0;

  // Requests of clients.
  std::uint64_t requests_relayed = 0;
  std::uint64_t requests_hello = 0;
  std::uint64_t requests_status = 0;
  std::uint64_t requests_refused = 0;     ///< answered here with an error
  std::uint64_t requests_shutdown = 0;    ///< answered here with ShutdownInProgress
  std::uint64_t documents_refused = 0;    ///< that could not take their value
  std::uint64_t inserts_assigned = 0;     ///< commands in which values were put
  metrics::HistogramValues insert_added;  ///< what an insert with a rule took longer for us: our
                                          ///< own time and the id store's, without the server's

  // limits.buffered_messages.
  std::uint64_t buffered_limit = 0;    ///< bytes
  std::uint64_t buffered_bytes = 0;    ///< now
  std::uint64_t buffered_waiting = 0;  ///< connections that wait for room, now
  std::uint64_t buffered_waits = 0;    ///< how often one had to
};

}  // namespace idproxy::net
