#include "app/state/finding.hpp"

#include <array>

namespace idproxy::app::state {

void log_finding(const Finding& finding, std::initializer_list<log::Field> fields) {
  constexpr std::array kLevels{log::Level::error, log::Level::warning, log::Level::info};
  log::event(kLevels[static_cast<std::size_t>(finding.kind.level)], finding.kind.event,
             finding.whole(), fields);
}

std::string name_of_rule(const rewrite::Rule& rule, std::size_t index) {
  return "rule " + std::to_string(index + rule.nones_before) + " (" +
         rule_subject(rule.ns, rule.field) + ")";
}

}  // namespace idproxy::app::state
