#pragma once

#include <cstdint>
#include <string>

/// What the kernel says of this process and its host.
namespace idproxy::app::state {

/// For Prometheus' usual process_* metrics.
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

}  // namespace idproxy::app::state
