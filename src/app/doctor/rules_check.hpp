#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "app/doctor/check.hpp"
#include "app/jobs/rule_session.hpp"
#include "idproxy/config/config.hpp"

namespace idproxy::app::doctor {

/// What a rule would do now.
struct RuleSaid {
  std::string reason{};  ///< why it gives no values; empty: it does
  std::string note{};    ///< on its unique index, if it gives values
  std::string sample{};  ///< the same: jobs::sample_of()
};

struct RulesSaid {
  DoctorCheck check;
  std::vector<RuleSaid> rules{};  ///< in file order
  std::string why_down{};         ///< as RuleSession::why_down()
  /// To be kept until the process ends: its own end may wait for a name service.
  std::unique_ptr<jobs::RuleSession> session{};
};

struct RulesLimits {
  std::chrono::steady_clock::time_point until;  ///< waits for answers until then
  std::chrono::milliseconds stop;               ///< and so long for the store to stop
  bool reads_documents;                         ///< looks for duplicates: seconds of reading
};

/// The part of `mongo-idproxy doctor` about the rules, and of `check --connect`: whether each gives
/// values, what guards its field, and when its numbers end. Makes no index, reads no whole
/// collection and uses up no number. `file`: the configuration, for commands.
[[nodiscard]] RulesSaid check_rules(config::Config config, const std::string& file,
                                    const RulesLimits& limits);

}  // namespace idproxy::app::doctor
