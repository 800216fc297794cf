#include "app/state/readiness.hpp"

#include <algorithm>

#include "idproxy/base/glob.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace {

Reason reason_in(const ids::Readiness& readiness) {
  if (readiness.kind != ids::Readiness::Kind::not_ready) {
    return {std::string(kLeftAlone)};
  }
  const ids::Error& error = readiness.error;
  return error.advice ? *error.advice : Reason{error.reason};
}

constexpr std::string_view kReplaced =
    "a collection that is dropped or replaced past the proxy is noticed within ten seconds, and "
    "until then a value can be stored twice";
constexpr std::string_view kReport =
    "updates and findAndModify that a driver may repeat report no values";
constexpr std::string_view kReserved = "reservations of a repeated insert are left to the sweeper";

}  // namespace

void RuleList::add(std::size_t rule_index, const rewrite::Rule& rule) {
  rules_.push_back(std::to_string(rule_index + rule.nones_before) + " (" +
                   rule_subject(rule.ns, rule.field) + ")");
}

std::string RuleList::text() const {
  constexpr std::size_t kMostListed = 20;
  return list_text(rules_, kMostListed);
}

std::vector<Reason> reasons_of(const rewrite::RuleSet& rules) {
  std::vector<Reason> reasons(rules.rules().size());
  if (rules.store() == nullptr) return reasons;
  for (const ids::NotReady& each : rules.store()->not_ready(1)) {
    const std::string& ns = rules.rules()[each.rule_index].ns;
    if (each.ns == ns && !has_wildcards(ns)) reasons[each.rule_index] = reason_in(each.readiness);
  }
  return reasons;
}

std::string note_on_index(const rewrite::Rule& rule, const Commands& commands) {
  if (rule.unique_index == ids::UniqueIndex::offer) {
    return "the proxy makes the unique index when it starts";
  }
  return Reason{id_store::kNoUniqueIndex, ": ", commands}.whole();
}

RuleLists lists_of(const std::vector<rewrite::Rule>& rules, const std::vector<Reason>& reasons) {
  RuleList ready;
  RuleList not_ready;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    (reasons[i].text.empty() ? ready : not_ready).add(i, rules[i]);
  }
  return {ready.text(), not_ready.text()};
}

std::string name_of_rule(const rewrite::Rule& rule, std::size_t index) {
  return "rule " + std::to_string(index + rule.nones_before) + " (" +
         rule_subject(rule.ns, rule.field) + ")";
}

Finding rule_not_ready(const rewrite::Rule& rule, std::size_t index, std::size_t collections) {
  return {
      finding::kRuleNotReady,
      rule_subject(rule.ns, rule.field),
      {name_of_rule(rule, index) + " gives no values in " + count_of(collections, "collection")},
      {"their names and the reasons", ": ",
       Commands().mongosh("db.adminCommand({idproxy: \"status\"})")}};
}

Finding rule_not_ready(const rewrite::Rule& rule, std::size_t index, Reason reason) {
  reason.text = name_of_rule(rule, index) + " is not ready: " + reason.text;
  return {finding::kRuleNotReady,
          rule_subject(rule.ns, rule.field),
          std::move(reason),
          {"inserts that need one get an error until that is mended"}};
}

void ReadinessLog::update(const std::vector<rewrite::Rule>& rules,
                          const std::vector<ids::NotReady>& all) {
  std::map<Key, std::string> reasons;
  for (const ids::NotReady& not_ready : all) {
    const rewrite::Rule& rule = rules[not_ready.rule_index];
    const Key key{not_ready.ns, rule.field};
    const auto before = reported_.find(key);
    if (not_ready.readiness.error.is_transient) {
      if (before != reported_.end()) reasons.insert(*before);
      continue;
    }
    const std::string& reason = not_ready.readiness.error.reason;
    if (!reasons.try_emplace(key, reason).second) continue;
    if (before != reported_.end() && before->second == reason) continue;
    log::event(rule_not_ready(rule, not_ready.rule_index, reason_in(not_ready.readiness)),
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

std::vector<std::pair<std::string_view, RuleList>> rules_by_limit(
    const std::vector<rewrite::Rule>& rules, std::int32_t wire_version) {
  std::vector<std::pair<std::string_view, RuleList>> found;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    for (const std::string_view limit : limits_of(rules[i], wire_version)) {
      auto its = std::ranges::find(found, limit, [](const auto& each) { return each.first; });
      if (its == found.end()) its = found.insert(its, {limit, {}});
      its->second.add(i, rules[i]);
    }
  }
  return found;
}

Finding server_lacks(const std::string& server, std::int32_t wire_version, std::string_view limit,
                     const std::string& rules) {
  return {finding::kServerLacks,
          server,
          {"with " + server_release::name_of(wire_version) + " " + std::string(limit) +
               "; MongoDB 6.0 and later do better. It concerns the rules " + rules,
           ": ", Commands().mongosh("db.version()")}};
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
    for (const auto& [limit, of] : rules_by_limit(rules, server.wire_version)) {
      const std::string concerned = of.text();
      log::event(server_lacks(server.server, server.wire_version, limit, concerned),
                 {{"server", server.server},
                  {"release", server.release},
                  {"limit", limit},
                  {"rules", concerned}});
    }
  }
}

}  // namespace idproxy::app::state
