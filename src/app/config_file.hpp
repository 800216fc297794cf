#pragma once

#include <boost/system/result.hpp>
#include <set>
#include <string>

#include "idproxy/config/config.hpp"

namespace idproxy::app {

/// The content of the file, or an error: "cannot read FILE: Permission denied".
[[nodiscard]] boost::system::result<std::string, std::string> read_config_file(
    const std::string& file);

/// Adds a warning if the file contains passwords and every user of the host can read or write it.
void look_at_mode(const std::string& file, config::Loaded& loaded);

/// Logs each finding in the form of config::format(), except those whose text is in `before`.
void log_findings(const std::string& file, const config::Loaded& loaded,
                  const std::set<std::string>& before = {});

}  // namespace idproxy::app
