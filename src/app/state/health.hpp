#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/state/snapshot.hpp"
#include "idproxy/admin/http_server.hpp"

namespace idproxy::app::state {

/// The page /readyz: 200 while the proxy accepts clients, else 503; what is wrong, but for refused
/// writes; and a line for each listener, each rule and the store. None of that changes the status,
/// since other proxies in front of the same servers would fare no better. Names no collections
/// except those in the configuration.
/// `snapshot`: nothing before the proxy serves.
[[nodiscard]] admin::HttpResponse readyz(Phase phase, const std::optional<Snapshot>& snapshot,
                                         std::chrono::sys_seconds now);

/// The line in `systemctl status`: "serving 127.0.0.1:27117 -> db1:27017; 3 clients".
[[nodiscard]] std::string status_line(Phase phase, const std::optional<Snapshot>& snapshot);

}  // namespace idproxy::app::state
