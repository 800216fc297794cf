#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/metrics/metrics.hpp"
#include "idproxy/net/counted.hpp"
#include "idproxy/rewrite/logins.hpp"

namespace idproxy::net {

/// Counts since the start, and current values, of the server. Each is exact; together they are not
/// a snapshot.
struct ServerStatistics {
  /// One listener and the server behind it.
  struct Listener {
    std::string listener;           ///< "host:port" that it is bound to
    std::string server;             ///< the server's name in the configuration or in its set
    bool up = false;                ///< the last connection to the server was made and answered
    std::uint64_t connections = 0;  ///< client connections, now
    std::uint64_t connect_failures = 0;
    /// Why it is down; if it is up, why it may not be the server that is meant; empty: nothing.
    std::string fault{};
    std::int32_t wire_version = 0;  ///< the server's maxWireVersion; 0: it has not said it yet
    std::string release{};          ///< "MongoDB 6.0.27", or what name_of() says; empty: unknown
    rewrite::Logins logins{};       ///< whether it enforces them
    std::string me{};               ///< its name in its replica set; empty: it is in none
    std::string told{};             ///< the listener's address, as clients are told it
    std::string set_name{};         ///< the server's replica set; empty: it is in none
    bool is_listed = false;         ///< upstream.uri names it; else its set does
    std::string state{};            ///< "PRIMARY", … as MongoDB spells it; "down", "unknown"
    std::chrono::nanoseconds state_age{};  ///< since when
    std::string last_failure{};            ///< why connecting failed last; empty: it never did
    std::chrono::nanoseconds failure_age{};
    std::optional<std::chrono::nanoseconds> round_trip{};  ///< of the last hello

    std::uint64_t requests = 0;  ///< messages sent to it
    std::uint64_t replies = 0;
    std::uint64_t bytes_sent = 0;
    std::uint64_t bytes_received = 0;
    /// Requests that wait for their reply now, and the age of the oldest; if the server answers
    /// nothing at all, of the first that it did not answer, whether its client waits or not.
    /// Without awaitable hellos, exhaust streams and getMores that wait for data, as the next.
    std::uint64_t in_flight = 0;
    std::optional<std::chrono::nanoseconds> oldest{};
    /// How long it has answered no hello of the proxy's own; nothing: it owes no answer.
    std::optional<std::chrono::nanoseconds> asked{};
    metrics::HistogramValues reply_time{};  ///< from sending a request to its reply
  };
  std::vector<Listener> listeners;
  bool is_direct = false;  ///< directConnection=true: further members of a set have none

  PerCounted<std::uint64_t> counted{};
  /// How much longer inserts with a rule took because of the proxy: its own time and that of the id
  /// store, without the server's.
  metrics::HistogramValues insert_added;

  std::uint64_t connections_open = 0;  ///< now
  std::uint64_t connections_limit = 0;
  /// That clients have begun and not ended, as ClientStatistics::transactions.
  std::uint64_t transactions_open = 0;
  std::optional<std::chrono::nanoseconds> oldest_transaction{};

  // Memory for buffered messages (limits.buffered_messages).
  std::uint64_t buffered_limit = 0;    ///< bytes
  std::uint64_t buffered_bytes = 0;    ///< now
  std::uint64_t buffered_waiting = 0;  ///< connections that wait for room, now
  std::uint64_t buffered_waits = 0;    ///< how often a connection had to wait
};

}  // namespace idproxy::net
