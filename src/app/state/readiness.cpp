#include "app/state/readiness.hpp"

#include "idproxy/base/glob.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace {

ids::Error error_of(const ids::Readiness& readiness) {
  if (readiness.kind == ids::Readiness::Kind::not_ready) return readiness.error;
  return {ids::Errc::exhausted, "a view or a time-series collection: no rule applies to it"};
}

constexpr std::string_view kReplaced =
    "a collection that is dropped or replaced past the proxy is noticed within ten seconds, and "
    "until then a value can be stored twice";
constexpr std::string_view kReport =
    "updates and findAndModify that a driver may repeat report no values";
constexpr std::string_view kReserved = "reservations of a repeated insert are left to the sweeper";

}  // namespace

void RuleList::add(std::size_t rule_index, const rewrite::Rule& rule) {
  if (++count_ > kMostListed) return;
  text_ += (count_ == 1 ? "" : ", ") + std::to_string(rule_index + rule.nones_before) + " (" +
           rule.ns + ", " + rule.field + ")";
}

std::string RuleList::text() const {
  if (count_ <= kMostListed) return text_;
  return text_ + " and " + std::to_string(count_ - kMostListed) + " more";
}

std::vector<ids::Error> errors_of(const rewrite::RuleSet& rules) {
  std::vector<ids::Error> errors(rules.rules().size());
  if (rules.store() == nullptr) return errors;
  for (const ids::NotReady& each : rules.store()->not_ready(1)) {
    const std::string& ns = rules.rules()[each.rule_index].ns;
    if (each.ns == ns && !has_wildcards(ns)) errors[each.rule_index] = error_of(each.readiness);
  }
  return errors;
}

std::vector<std::string> reasons_of(const rewrite::RuleSet& rules) {
  std::vector<std::string> reasons;
  for (ids::Error& each : errors_of(rules)) reasons.push_back(std::move(each.reason));
  return reasons;
}

std::string note_on_index(const rewrite::Rule& rule, const Commands& commands) {
  if (rule.unique_index == ids::UniqueIndex::offer) {
    return "the proxy makes the unique index when it starts";
  }
  return Advice{id_store::kNoUniqueIndex, ": ", commands}.whole();
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

void ReadinessLog::update(const std::vector<rewrite::Rule>& rules,
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

std::vector<std::string_view> limits_of(const rewrite::Rule& rule, std::int32_t wire_version) {
  if (wire_version <= 0 || wire_version >= server_release::k6_0) return {};
  std::vector<std::string_view> limits;
  const bool is_sequence = rule.strategy_name == "counter" || rule.strategy_name == "gapless";
  if (is_sequence || rule.unique_index != ids::UniqueIndex::warn) limits.push_back(kReplaced);
  if (rule.report) limits.push_back(kReport);
  if (rule.reserve) limits.push_back(kReserved);
  return limits;
}

std::string note_on_limits(const rewrite::Rule& rule, std::int32_t wire_version) {
  std::string note;
  for (const std::string_view limit : limits_of(rule, wire_version)) {
    note += note.empty() ? "with " + server_release::name_of(wire_version) + ": " : "; ";
    note += limit;
  }
  return note;
}

void ServerLimitsLog::update(const std::vector<rewrite::Rule>& rules,
                             const std::vector<net::ServerStatistics::Listener>& servers) {
  for (const auto& server : servers) {
    if (server.wire_version == 0) continue;
    std::string& reported = reported_[server.server];
    if (reported == server.release) continue;
    reported = server.release;
    log::event(log::Level::info, "server_release", "the server says which release it is",
               {{"server", server.server}, {"release", server.release}});
    std::map<std::string_view, RuleList> concerned;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      for (const std::string_view limit : limits_of(rules[i], server.wire_version)) {
        concerned[limit].add(i, rules[i]);
      }
    }
    for (const auto& [limit, of] : concerned) {
      log::event(log::Level::warning, "server_limit",
                 "rules cannot have with this server what later releases allow",
                 {{"server", server.server},
                  {"release", server.release},
                  {"limit", limit},
                  {"rules", of.text()}});
    }
  }
}

}  // namespace idproxy::app::state
