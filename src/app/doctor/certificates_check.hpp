#pragma once

#include <chrono>
#include <string>

#include "app/doctor/check.hpp"
#include "idproxy/base/finding.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::app::doctor {

/// The dates of all certificates that the configuration names.
[[nodiscard]] DoctorCheck check_certificates(const std::string& file, const config::Config& config,
                                             std::chrono::sys_seconds now);

/// True if it says the same as this finding about the configuration.
[[nodiscard]] bool is_about_dates(const Finding& finding, const config::Config& config,
                                  std::chrono::sys_seconds now);

}  // namespace idproxy::app::doctor
