#pragma once

#include <string>

#include "idproxy/app/exit_code.hpp"

namespace idproxy::app {

/// Runs the proxy with this configuration file until SIGTERM or SIGINT; SIGHUP reloads the file.
/// `version` is the program's, shown in its status.
[[nodiscard]] ExitCode serve(const std::string& file, const std::string& version);

/// The scope of a check of a configuration.
enum class CheckWith {
  file,     ///< nothing but the file and the files that it names
  servers,  ///< also the servers: whether they answer, and whether each rule is ready
};

/// Prints every error and warning about the file, and what the servers say, to standard output.
/// Opens no listener and writes nothing.
[[nodiscard]] ExitCode check_config(const std::string& file, CheckWith with);

}  // namespace idproxy::app
