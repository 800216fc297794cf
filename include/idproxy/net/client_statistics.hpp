#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::net {

/// One client connection. The names are the client's own, unchecked.
struct ClientStatistics {
  std::uint64_t id = 0;       ///< `connection` in the log
  std::string address{};      ///< "host:port", or "unix"
  std::string application{};  ///< appName; empty: it has not said
  std::string driver{};       ///< "PyMongo 4.6.1"; empty: it has not said
  std::string user{};         ///< empty: it has not logged in
  std::string server{};       ///< the name of its server
  std::chrono::nanoseconds age{};
  std::optional<std::chrono::nanoseconds>
      waits{};  ///< for the oldest reply that the server owes it
  std::uint64_t requests = 0;
  std::uint64_t documents = 0;      ///< of its inserts into collections with rules
  std::uint64_t values = 0;         ///< that its writes were given
  double requests_per_second = 0;   ///< of about the last ten seconds
  double documents_per_second = 0;  ///< the same
  /// That it has begun and not ended, as far as its messages say, and the age of the oldest. Some
  /// 16 are counted.
  std::uint64_t transactions = 0;
  std::optional<std::chrono::nanoseconds> oldest_transaction{};
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t memory = 0;       ///< bytes that it holds of messages, now
  std::string_view compressor{};  ///< of its last compressed request; empty: it has sent none
  bool tls = false;
  std::uint16_t port = 0;  ///< the proxy's own, by which the server knows the client; 0: none
};

/// What the clients of one application amount to.
struct ApplicationStatistics {
  std::string application{};  ///< empty: they have not said
  std::uint64_t connections = 0;
  // A second, of about the last ten seconds, with those of connections that are closed.
  double requests_per_second = 0;
  double documents_per_second = 0;
  std::uint64_t transactions = 0;  ///< as ClientStatistics::transactions
  std::optional<std::chrono::nanoseconds> oldest_transaction{};
  std::optional<std::chrono::nanoseconds> waits{};  ///< the oldest request
  std::uint64_t memory = 0;

  void add(const ApplicationStatistics& more);
};

/// Which clients to list.
struct ClientQuery {
  /// Those that hold more than 1 MiB of messages, and then those that have sent the most requests.
  std::size_t most = 50;
  std::optional<std::string> application{};  ///< only those with this name
};

struct ClientList {
  std::uint64_t matching = 0;               ///< how many the query fits
  std::vector<ClientStatistics> clients{};  ///< in the order of ClientQuery::most
  bool complete = true;                     ///< false: a thread has not answered in time

  static constexpr std::size_t kMostApplications = 100;  ///< clients can invent any number
  /// Of all clients: those that hold more than 1 MiB of messages, those with a request or a
  /// transaction that is 5 s old, the busiest, then those with the most connections.
  std::vector<ApplicationStatistics> applications{};
  ApplicationStatistics other_applications{};  ///< the sum of further ones
  std::uint64_t others = 0;                    ///< how many these are
};

}  // namespace idproxy::net
