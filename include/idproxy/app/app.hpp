#pragma once

#include <string>

#include "idproxy/app/exit_code.hpp"

namespace idproxy::app {

/// Runs the proxy with this configuration file until SIGTERM or SIGINT; SIGHUP reloads the file.
/// `version` is the program's, shown in its status.
[[nodiscard]] ExitCode serve(const std::string& file, const std::string& version);

/// Prints every error and warning about the file to standard output. Does not use the network.
[[nodiscard]] ExitCode check_config(const std::string& file);

}  // namespace idproxy::app
