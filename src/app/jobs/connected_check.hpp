#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <iosfwd>
#include <string>

#include "idproxy/app/command_line.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::app::jobs {

/// Asks the servers what a start with this configuration would meet, and prints it: whether they
/// answer, whether each rule is ready, and a sample of its values. Opens no listener, writes
/// nothing, and uses up no number of a counter. Ends soon after `until`, and may end the process if
/// a server hangs. Returns ok if all is ready, else unavailable. `config` must have been
/// accepted, and `upstream_uri` is its upstream.uri, or the mongodb:// string that it resolves to.
/// `json`: prints that instead, with all this added; null: text.
[[nodiscard]] ExitCode check_connected(config::Config config, const std::string& upstream_uri,
                                       std::chrono::steady_clock::time_point until,
                                       std::ostream& out, boost::json::object* json);

}  // namespace idproxy::app::jobs
