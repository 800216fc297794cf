#include "app/state/refusals.hpp"

#include <utility>

#include "app/state/readiness.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace {

// Writes wait for two seconds before they are refused.
constexpr std::chrono::seconds kOver{5};

}  // namespace

std::string Refusals::Refused::text() const {
  std::string text =
      with_commas(writes) + (writes == 1 ? " insert refused" : " inserts refused") + "; ";
  if (holder == nullptr) return text + reason;
  text += is_over ? "the number was held by" : "the number is held by";
  text += " a transaction of connection " + std::to_string(holder->connection);
  if (!holder->application.empty()) text += " (" + named(holder->application) + ")";
  if (is_over) return text;
  return text + ", for " + std::to_string(whole_seconds(held_for)) + " s";
}

void Refusals::update(const rewrite::RuleSet& rules, Time now) {
  collect(rules, now);
  for (auto& [key, entry] : entries_) {
    const bool is_due = entry.logged == Time{} || now - entry.logged >= kLately;
    if (entry.unsaid > 0 && is_due) say(rules, key, entry, now);
  }
  std::erase_if(entries_, [&](const auto& each) { return now - each.second.last >= kLately; });
}

void Refusals::finish(const rewrite::RuleSet& rules, Time now) {
  collect(rules, now);
  for (auto& [key, entry] : entries_) {
    if (entry.unsaid > 0) say(rules, key, entry, now);
  }
  entries_.clear();
}

void Refusals::collect(const rewrite::RuleSet& rules, Time now) {
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    for (auto& [key, refused] : rules.outcomes(i).refusals.take()) {
      Key its{i, key.ns, key.reason};
      if (entries_.size() >= rewrite::RefusedWrites::kMost && !entries_.contains(its))
        its = {i, "", ""};
      Entry& entry = entries_[std::move(its)];
      entry.writes += refused.writes;
      entry.unsaid += refused.writes;
      entry.holder = std::move(refused.holder);
      entry.last = now;
    }
  }
}

void Refusals::say(const rewrite::RuleSet& rules, const Key& key, Entry& entry, Time now) {
  const auto& [rule, ns, reason] = key;
  if (rule >= rules.rules().size()) return;  // of those before a reload
  entry.logged = now;
  Refused refused = refused_of(key, entry, now);
  refused.writes = std::exchange(entry.unsaid, 0);
  const std::string& field = rules.rules()[rule].field;
  const std::size_t place = rule + rules.rules()[rule].nones_before;
  Finding finding = writes_refused(rules.rules()[rule], refused);
  if (entry.holder == nullptr) {
    finding.remedy = {};  // to read this line
    return log::event(finding, {{"rule", place},
                                {"ns", ns},
                                {"field", field},
                                {"writes", refused.writes},
                                {"reason", reason}});
  }
  log::event(finding, {{"rule", place},
                       {"ns", ns},
                       {"field", field},
                       {"writes", refused.writes},
                       {"reason", reason},
                       {"held_by_connection", entry.holder->connection},
                       {"held_by_application", entry.holder->application}});
}

Refusals::Refused Refusals::refused_of(const Key& key, const Entry& entry, Time now) {
  const auto& [rule, ns, reason] = key;
  Refused refused{rule, ns, reason, entry.writes, entry.holder};
  refused.is_over = now - entry.last >= kOver;
  if (entry.holder != nullptr) refused.held_for = now - entry.holder->since;
  return refused;
}

std::vector<Refusals::Refused> Refusals::current(Time now) const {
  std::vector<Refused> found;
  found.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) found.push_back(refused_of(key, entry, now));
  return found;
}

Finding writes_refused(const rewrite::Rule& rule, const Refusals::Refused& refused) {
  const bool is_held = refused.holder != nullptr;
  const std::string where = has_wildcards(rule.ns) ? " in " + refused.ns : "";
  return {is_held ? finding::kNumberHeld : finding::kWritesRefused,
          rule_subject(refused.ns, rule.field),
          {name_of_rule(rule, refused.rule_index) + where + ": " + refused.text()},
          {is_held ? "end that transaction, or have its application keep transactions short: the "
                     "server ends it after transactionLifetimeLimitSeconds (60 by default)"
                   : "writes_refused in the log has the reasons"}};
}

}  // namespace idproxy::app::state
