#include <algorithm>
#include <utility>

#include "id_store/inspector_collections.hpp"
#include "idproxy/base/glob.hpp"

namespace idproxy::id_store {

using ids::Readiness;

Readiness Collections::readiness_of(const Guard& guard) {
  switch (guard.state) {
    case Guard::State::ready:
      return {};
    case Guard::State::failed:
      return {Readiness::Kind::not_ready, {ids::Errc::exhausted, guard.reason}};
    case Guard::State::unchecked:
      break;
  }
  return {Readiness::Kind::not_ready, {ids::Errc::unavailable, guard.reason}};
}

/// Calls `use` with the rule's index, the namespace and a function that returns the Readiness
/// there.
template <class Use>
void Collections::each_not_ready(const Use& use) const {
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    const std::string& ns = rules_[rule].ns;
    if (!is_left_alone(ns)) continue;
    use(rule, ns, [] { return Readiness{Readiness::Kind::left_alone, {}}; });
  }
  for (const auto& [ns, collection] : collections_) {
    if (is_left_alone(ns)) continue;
    for (const Guard& guard : collection.guards) {
      if (guard.state == Guard::State::ready || guard.listed) continue;
      use(guard.rule, ns, [&] { return readiness_of(guard); });
    }
    for (const Numbers& numbers : collection.numbers) {
      const std::string why = why_full(numbers.fill->seen());
      if (why.empty()) continue;
      const auto rule = rule_of(rules_, ns, numbers.field);
      if (!rule) continue;
      use(*rule, ns,
          [&] { return Readiness{Readiness::Kind::not_ready, {ids::Errc::exhausted, why}}; });
    }
  }
}

std::vector<ids::NotReady> Collections::not_ready(std::size_t most_per_rule) const {
  std::vector<ids::NotReady> found;
  std::vector<std::size_t> counts(rules_.size());
  each_not_ready([&](std::size_t rule, const std::string& ns, const auto& readiness) {
    if (counts[rule]++ < most_per_rule) found.push_back({rule, ns, readiness()});
  });
  return found;
}

std::vector<std::size_t> Collections::not_ready_counts() const {
  std::vector<std::size_t> counts(rules_.size());
  each_not_ready([&](std::size_t rule, const std::string&, const auto&) { ++counts[rule]; });
  return counts;
}

std::map<std::size_t, std::string> Collections::lack_index() const {
  std::map<std::size_t, std::string> found;
  for (const auto& [ns, collection] : collections_) {
    if (is_left_alone(ns)) continue;
    for (const Guard& guard : collection.guards) {
      if (guard.warned) found.try_emplace(guard.rule, command_for(collection, guard));
    }
  }
  return found;
}

/// The rule that fills the field.
std::optional<std::size_t> Collections::rule_of(const std::vector<WatchedRule>& rules,
                                                std::string_view ns, std::string_view field) {
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const WatchedRule& rule) {
    return rule.field == field && glob_matches(rule.ns, ns);
  });
  if (found == rules.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rules.begin());
}

}  // namespace idproxy::id_store
