#pragma once

#include <string>

#include "app/doctor/check.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::app::doctor {

struct RulesSaid {
  DoctorCheck check;
  bool hangs = false;  ///< a thread still waits for a server: the process must end by itself
};

/// The part of `mongo-idproxy doctor` about the rules: whether each gives values, what guards its
/// field, and when its numbers end. Makes no index, reads no whole collection and uses up no
/// number. Takes about fifteen seconds at most. `file`: the configuration, for commands.
[[nodiscard]] RulesSaid check_rules(config::Config config, const std::string& file);

}  // namespace idproxy::app::doctor
