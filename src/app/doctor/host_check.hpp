#pragma once

#include <string>

#include "app/config_file.hpp"
#include "app/doctor/check.hpp"
#include "app/json_view.hpp"

/// The parts of `mongo-idproxy doctor` that look at this host only.
namespace idproxy::app::doctor {

/// What the configuration file says of itself. `file`: as the command line names it.
[[nodiscard]] DoctorCheck check_configuration(const std::string& file, const ConfigFile& opened);

/// Whether the proxy can listen where the configuration says. `proxy`: the status of the one that
/// runs, which may hold these places; of nothing: none answers.
[[nodiscard]] DoctorCheck check_ports(const config::Config& config, const JsonView& proxy);

/// The places of clients of upstream.uri's servers at which nobody listens now.
[[nodiscard]] std::vector<std::string> deserted_places(const config::Config& config);

/// Whether there are enough file descriptors for listen.max_connections.
[[nodiscard]] DoctorCheck check_descriptors(const config::Config& config, const JsonView& proxy);

}  // namespace idproxy::app::doctor
