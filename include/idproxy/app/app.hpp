#pragma once

#include <string>

#include "idproxy/app/command_line.hpp"

namespace idproxy::app {

/// Runs the proxy with this configuration file until SIGTERM or SIGINT; SIGHUP reloads the file.
/// `version` is the program's, shown in its status.
[[nodiscard]] ExitCode serve(const std::string& file, const std::string& version);

/// Prints every error and warning about the file, and what the servers say, to standard output.
/// Opens no listener and writes nothing.
[[nodiscard]] ExitCode check_config(const std::string& file, CheckWith with);

/// Gives the collection's documents without the field their values, through the rule's own
/// strategy, and prints a report. SIGINT and SIGTERM end it behind the batch under way, a second
/// one at once. Returns `ok` if no document is left, `left` if some are, `unavailable` if it could
/// not begin, and `usage` if no rule suits the request. Prints to standard output and, progress
/// and errors, to standard error.
[[nodiscard]] ExitCode backfill(const BackfillRequest& request);

}  // namespace idproxy::app
