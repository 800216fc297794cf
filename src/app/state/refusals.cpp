#include "app/state/refusals.hpp"

#include <utility>

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
  return text + ", for " +
         std::to_string(std::chrono::floor<std::chrono::seconds>(held_for).count()) + " s";
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
  const std::uint64_t writes = std::exchange(entry.unsaid, 0);
  const std::string& field = rules.rules()[rule].field;
  const std::size_t place = rule + rules.rules()[rule].nones_before;
  constexpr std::string_view kMessage =
      "the proxy has answered writes that need a value of the rule with an error (one line a "
      "minute "
      "for each rule, namespace and reason, with the number of writes)";
  if (entry.holder == nullptr) {
    return log::event(
        log::Level::warning, "writes_refused", kMessage,
        {{"rule", place}, {"ns", ns}, {"field", field}, {"writes", writes}, {"reason", reason}});
  }
  log::event(log::Level::warning, "writes_refused", kMessage,
             {{"rule", place},
              {"ns", ns},
              {"field", field},
              {"writes", writes},
              {"reason", reason},
              {"held_by_connection", entry.holder->connection},
              {"held_by_application", entry.holder->application}});
}

std::vector<Refusals::Refused> Refusals::current(Time now) const {
  std::vector<Refused> found;
  for (const auto& [key, entry] : entries_) {
    const auto& [rule, ns, reason] = key;
    Refused& each = found.emplace_back(rule, ns, reason, entry.writes, entry.holder);
    each.is_over = now - entry.last >= kOver;
    if (entry.holder != nullptr) each.held_for = now - entry.holder->since;
  }
  return found;
}

}  // namespace idproxy::app::state
