#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "exposition.hpp"
#include "idproxy/observability/endpoint.hpp"

namespace idproxy::app {

/// How far a process is. Clients may be sent here only while it serves.
enum class Phase { starting, serving, draining };

/// The page /: what there is.
[[nodiscard]] admin::Answer index_page(const std::string& version);

/// 503 if a thread has owed an answer for Watchdog::kDead: a restart is all that helps. `owed`: by
/// io thread, as Watchdog::owed().
[[nodiscard]] admin::Answer livez(const std::vector<std::chrono::nanoseconds>& owed);

/// 200 while clients may be sent here, else 503; a line for each listener, rule and the store, none
/// of which changes the answer: one proxy in front of the same servers is as well off as another.
/// Names no collection but those of the configuration. `served`: null before there is one.
[[nodiscard]] admin::Answer readyz(Phase phase, const Served* served);

/// What `systemctl status` shows: "serving 127.0.0.1:27117 -> db1:27017; 3 clients".
[[nodiscard]] std::string status_line(Phase phase, const Served* served);

}  // namespace idproxy::app
