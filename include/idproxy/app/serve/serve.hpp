#pragma once

#include <string>

#include "idproxy/app/command_line.hpp"

namespace idproxy::app::serve {

/// Runs the proxy with this configuration file until SIGTERM or SIGINT; SIGHUP reloads the file.
/// `version` is the program's, shown in its status.
[[nodiscard]] ExitCode serve(const std::string& file, const std::string& version);

}  // namespace idproxy::app::serve
