#pragma once

#include <chrono>
#include <string>

#include "app/doctor/check.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::app::doctor {

/// The dates of all certificates that the configuration names.
[[nodiscard]] DoctorCheck check_certificates(const std::string& file, const config::Config& config,
                                             std::chrono::sys_seconds now);

}  // namespace idproxy::app::doctor
