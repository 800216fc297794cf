#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "idproxy/ids/source.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::app {

/// The kernel's data about this process, for Prometheus' usual process_* metrics.
struct ProcessStatistics {
  double cpu_seconds = 0;  ///< in user and system mode
  std::uint64_t resident_memory_bytes = 0;
  std::uint64_t virtual_memory_bytes = 0;
  std::uint64_t open_fds = 0;
  std::uint64_t max_fds = 0;
  double start_time_seconds = 0;  ///< seconds since 1970
};

[[nodiscard]] ProcessStatistics process_statistics();

/// The name of this machine.
[[nodiscard]] std::string host_name();

/// The system's clock and the kernel's random bytes. They live as long as the process.
[[nodiscard]] ids::Sources process_sources();
/// What its clock says: monotonic.
[[nodiscard]] std::chrono::nanoseconds monotonic_now();

/// Opens /dev/null as standard input, output and error if they are closed. Otherwise a socket could
/// become standard error, and a server would receive log lines. Call it before anything is opened.
void reserve_standard_descriptors();

/// The sockets that systemd passes on to this process ($LISTEN_FDS), for no child of it. Call it
/// once. Returns an error if the variables contradict each other.
[[nodiscard]] boost::system::result<std::vector<net::PassedSocket>, std::string> passed_sockets();

/// The number of file descriptors that options.max_connections clients need: two for each, plus
/// those of the proxy itself.
[[nodiscard]] std::uint64_t needed_descriptors(const net::Options& options);
/// How many clients `limit` descriptors are enough for, at least 1.
[[nodiscard]] std::uint32_t connections_within(std::uint64_t limit, const net::Options& options);

/// How many clients may connect: options.max_connections, or as many as there are descriptors for.
/// Raises RLIMIT_NOFILE as needed and permitted, and logs a warning if that is not enough.
[[nodiscard]] std::uint32_t permitted_connections(const net::Options& options);

}  // namespace idproxy::app
