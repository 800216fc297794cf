#include <algorithm>
#include <utility>

#include "id_store/inspector_collections.hpp"
#include "idproxy/base/glob.hpp"

namespace idproxy::id_store {

using ids::Standing;

Standing Collections::standing_of(const Guard& guard) {
  switch (guard.state) {
    case Guard::State::ready:
      return {};
    case Guard::State::failed:
      return {Standing::Kind::not_ready, {ids::Errc::exhausted, guard.reason}};
    case Guard::State::unchecked:
      break;
  }
  return {Standing::Kind::not_ready, {ids::Errc::unavailable, guard.reason}};
}

std::vector<ids::NotReady> Collections::not_ready(std::size_t most_per_rule) const {
  std::vector<ids::NotReady> found;
  std::vector<std::size_t> counts(rules_.size());
  const auto has_room = [&](std::size_t rule) { return counts[rule]++ < most_per_rule; };
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    const std::string& ns = rules_[rule].ns;
    if (!is_left_alone(ns) || !has_room(rule)) continue;
    found.push_back({rule, ns, {Standing::Kind::left_alone, {}}});
  }
  for (const auto& [ns, collection] : collections_) {
    if (is_left_alone(ns)) continue;
    for (const Guard& guard : collection.guards) {
      if (guard.state == Guard::State::ready || !has_room(guard.rule)) continue;
      found.push_back({guard.rule, ns, standing_of(guard)});
    }
    for (const Numbers& numbers : collection.numbers) {
      std::string why = why_full(numbers.fill->seen());
      if (why.empty()) continue;
      const auto rule = rule_of(ns, numbers.field);
      if (!rule || !has_room(*rule)) continue;
      found.push_back(
          {*rule, ns, {Standing::Kind::not_ready, {ids::Errc::exhausted, std::move(why)}}});
    }
  }
  return found;
}

/// The one that fills the field.
std::optional<std::size_t> Collections::rule_of(std::string_view ns, std::string_view field) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const Watched& rule) {
    return rule.field == field && glob_matches(rule.ns, ns);
  });
  if (found == rules_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rules_.begin());
}

}  // namespace idproxy::id_store
