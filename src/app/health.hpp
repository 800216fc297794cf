#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "exposition.hpp"
#include "idproxy/observability/http_server.hpp"

namespace idproxy::app {

/// The state of the process. Clients may be sent here only while it serves.
enum class Phase { starting, serving, draining };

/// The page /: a list of the pages.
[[nodiscard]] admin::HttpResponse index_page(const std::string& version);

/// 503 if an io thread has not answered for Watchdog::kDead: only a restart helps. `owed`: by io
/// thread, as Watchdog::owed().
[[nodiscard]] admin::HttpResponse livez(const std::vector<std::chrono::nanoseconds>& owed);

/// 200 while clients may be sent here, else 503. A line for each listener, each rule and the store;
/// their state does not change the status, since other proxies in front of the same servers would
/// fare no better. Names no collection but those of the configuration. `snapshot`: null before
/// there is one.
[[nodiscard]] admin::HttpResponse readyz(Phase phase, const Snapshot* snapshot);

/// What `systemctl status` shows: "serving 127.0.0.1:27117 -> db1:27017; 3 clients".
[[nodiscard]] std::string status_line(Phase phase, const Snapshot* snapshot);

}  // namespace idproxy::app
