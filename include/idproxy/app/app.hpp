#pragma once

#include <string>

#include "idproxy/app/exit_code.hpp"

namespace idproxy::app {

/// Serves as the file says, until SIGTERM or SIGINT; SIGHUP has it read again. `version` is the
/// program's, for its status.
[[nodiscard]] ExitCode serve(const std::string& file, const std::string& version);

/// Prints every finding of the file to standard output; touches no network.
[[nodiscard]] ExitCode check_config(const std::string& file);

}  // namespace idproxy::app
