#pragma once

#include <boost/system/result.hpp>
#include <iosfwd>
#include <set>
#include <string>

#include "idproxy/app/exit_code.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::app {

/// The content of the file, or an error: "cannot read FILE: Permission denied".
[[nodiscard]] boost::system::result<std::string, std::string> read_config_file(
    const std::string& file);

/// Adds a warning if the file contains passwords and every user of the host can read or write it.
void look_at_mode(const std::string& file, config::Loaded& loaded);

/// Logs each finding in the form of Finding::text(), except those whose text is in `before`.
void log_findings(const std::string& file, const config::Loaded& loaded,
                  const std::set<std::string>& before = {});

/// Prints each finding in the form of Finding::text(), one a line.
void print_findings(std::ostream& out, const std::string& file, const config::Loaded& loaded);

/// For commands that use the servers once: if upstream.uri is a mongodb+srv string, looks its
/// servers up and parses `text`, the content of `file`, again into `loaded`. Returns upstream.uri,
/// or the mongodb:// string that it resolves to. Prints faults to `out` and returns the exit code.
[[nodiscard]] boost::system::result<std::string, ExitCode> resolve_servers(const std::string& file,
                                                                           const std::string& text,
                                                                           ids::Sources sources,
                                                                           config::Loaded& loaded,
                                                                           std::ostream& out);

}  // namespace idproxy::app
