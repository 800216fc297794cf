#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace idproxy::app::state {

struct ReloadStatistics {
  std::string file{};  ///< the configuration
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  bool under_way = false;                    ///< a further one has begun
  std::chrono::seconds last_success{};       ///< since 1970; the start counts as a success
  std::chrono::seconds last_at{};            ///< since 1970: when the last reload ended
  std::string last_text{};                   ///< what it changed, or why it failed; empty: nothing
  std::vector<std::string> last_findings{};  ///< lines about the file

  /// Of the last reload, from 1 on; 0: there was none.
  [[nodiscard]] std::uint64_t last_number() const { return succeeded + failed; }
};

}  // namespace idproxy::app::state
