#pragma once

#include <boost/system/result.hpp>
#include <set>
#include <string>

#include "idproxy/config/config.hpp"

namespace idproxy::app {

/// All of the file; or why not: "cannot read FILE: Permission denied".
[[nodiscard]] boost::system::result<std::string, std::string> read_config_file(
    const std::string& file);

/// Adds a finding if what is secret in the file can be read by everybody.
void look_at_mode(const std::string& file, config::Loaded& loaded);

/// Writes each finding to the log as it is printed by format(); but for the texts of `before`.
void log_findings(const std::string& file, const config::Loaded& loaded,
                  const std::set<std::string>& before = {});

}  // namespace idproxy::app
