#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/net/options.hpp"

/// What a service and systemd tell each other, by variables and a socket, as sd_notify(3),
/// sd_watchdog_enabled(3) and sd_listen_fds(3) describe it.
namespace idproxy::app {

/// Tells systemd, if it started this process: "READY=1". Thread-safe.
void notify(std::string_view state);

/// How often systemd wants to hear WATCHDOG=1; nothing: it does not.
[[nodiscard]] std::optional<std::chrono::microseconds> watchdog_period();

/// The sockets that systemd passes on to this process ($LISTEN_FDS), for no child of it. Call it
/// once. Returns an error if the variables contradict each other.
[[nodiscard]] boost::system::result<std::vector<net::PassedSocket>, std::string> passed_sockets();

}  // namespace idproxy::app
