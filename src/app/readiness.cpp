#include "app/readiness.hpp"

#include "idproxy/observability/log.hpp"

namespace idproxy::app {
namespace {

std::string reason_of(const ids::Readiness& readiness) {
  if (readiness.kind == ids::Readiness::Kind::not_ready) return readiness.error.reason;
  return "a view or a time-series collection: no rule applies to it";
}

}  // namespace

void RuleList::add(std::size_t rule_index, const rewrite::Rule& rule) {
  if (++count_ > kMostListed) return;
  text_ += (count_ == 1 ? "" : ", ") + std::to_string(rule_index) + " (" + rule.ns + ", " +
           rule.field + ")";
}

std::string RuleList::text() const {
  if (count_ <= kMostListed) return text_;
  return text_ + " and " + std::to_string(count_ - kMostListed) + " more";
}

bool has_wildcards(std::string_view ns) {
  return ns.find_first_of("*?") != std::string_view::npos;
}

std::vector<std::string> reasons_of(const rewrite::RuleSet& rules) {
  std::vector<std::string> reasons(rules.rules().size());
  if (rules.store() == nullptr) return reasons;
  for (const ids::NotReady& each : rules.store()->not_ready(1)) {
    const std::string& ns = rules.rules()[each.rule_index].ns;
    if (each.ns == ns && !has_wildcards(ns)) reasons[each.rule_index] = reason_of(each.readiness);
  }
  return reasons;
}

std::string note_on_index(const rewrite::Rule& rule, const std::string& command) {
  if (rule.unique_index == ids::UniqueIndex::offer) {
    return "the proxy makes the unique index when it starts";
  }
  return "no unique index keeps a value from being stored twice: " + command;
}

RuleLists lists_of(const std::vector<rewrite::Rule>& rules,
                   const std::vector<std::string>& reasons) {
  RuleList ready;
  RuleList not_ready;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    (reasons[i].empty() ? ready : not_ready).add(i, rules[i]);
  }
  return {ready.text(), not_ready.text()};
}

void ReadinessLog::look(const std::vector<rewrite::Rule>& rules,
                        const std::vector<id_store::Watch::CounterObstacle>& obstacles) {
  std::map<Key, std::string> reasons;
  for (const auto& [not_ready, passes] : obstacles) {
    const Key key{not_ready.ns, rules[not_ready.rule_index].field};
    const auto before = reported_.find(key);
    if (!passes) {
      reasons.try_emplace(key, not_ready.readiness.error.reason);
    } else if (before != reported_.end()) {
      reasons.insert(*before);
    }
  }
  for (const auto& [key, reason] : reasons) {
    const auto before = reported_.find(key);
    if (before != reported_.end() && before->second == reason) continue;
    log::event(log::Level::warning, "not_ready",
               "the rule gives no values: the proxy refuses inserts that need one",
               {{"ns", key.first}, {"field", key.second}, {"reason", reason}});
  }
  for (const auto& [key, reason] : reported_) {
    if (reasons.contains(key)) continue;
    log::event(log::Level::info, "ready_again", "the rule is ready: it gives values",
               {{"ns", key.first}, {"field", key.second}});
  }
  reported_ = std::move(reasons);
}

}  // namespace idproxy::app
