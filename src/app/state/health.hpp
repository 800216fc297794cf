#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/state/snapshot.hpp"
#include "idproxy/admin/http_server.hpp"

namespace idproxy::app::state {

/// The state of the process. A load balancer may send clients here only while it is `serving`.
enum class Phase { starting, serving, draining };
/// "starting", "ready" or "draining".
[[nodiscard]] std::string_view name_of(Phase phase);

/// The page /readyz: 200 while the proxy accepts clients, else 503, and a line for each listener,
/// each rule, with the reason if it gives no values, and the store. Their state does not change the
/// status, since other proxies in front of the same servers would fare no better. Names no
/// collections except those in the configuration.
/// `snapshot`: nothing before the proxy serves.
[[nodiscard]] admin::HttpResponse readyz(Phase phase, const std::optional<Snapshot>& snapshot);

/// The line in `systemctl status`: "serving 127.0.0.1:27117 -> db1:27017; 3 clients".
[[nodiscard]] std::string status_line(Phase phase, const std::optional<Snapshot>& snapshot);

}  // namespace idproxy::app::state
