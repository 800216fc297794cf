#pragma once

#include <cstdint>

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

}  // namespace idproxy::app
