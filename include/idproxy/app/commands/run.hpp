#pragma once

#include <string>

#include "idproxy/app/command_line.hpp"

namespace idproxy::app::commands {

/// Runs the proxy with a configuration file.
using Serve = ExitCode (*)(const std::string& file);

/// Does what the command line says: a command, a check of the configuration, or `serve`.
[[nodiscard]] ExitCode run(int argc, char** argv, Serve serve);

}  // namespace idproxy::app::commands
