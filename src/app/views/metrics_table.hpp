#pragma once

#include <optional>
#include <string>

#include "app/state/process_statistics.hpp"
#include "app/state/snapshot.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::views {

/// The page /metrics. `snapshot`: nothing before the proxy serves. All labels come from the
/// program, the configuration or the listeners' addresses, so that clients cannot add series.
[[nodiscard]] std::string exposition(const std::string& version,
                                     const state::ProcessStatistics& process,
                                     const log::Counts& log,
                                     const std::optional<state::Snapshot>& snapshot);

}  // namespace idproxy::app::views
