#include "app/rule_statistics.hpp"

#include <algorithm>
#include <variant>

namespace idproxy::app {
namespace {

void add(const ids::CounterNumbers& counter, RuleStatistics& statistics) {
  statistics.held = statistics.held.value_or(0) + counter.held;
  if (counter.left)
    statistics.left = std::min(statistics.left.value_or(*counter.left), *counter.left);
  if (counter.ranges) statistics.live_ranges = counter.ranges->live;
}

void add(const ids::SpaceUse& space, RuleStatistics& statistics) {
  if (!statistics.fullest || statistics.fullest->fill < space.fill) statistics.fullest = space;
}

}  // namespace

std::vector<RuleStatistics> statistics_of(const std::vector<rewrite::Rule>& rules,
                                          const std::vector<ids::RuleNumbers>& numbers) {
  std::vector<RuleStatistics> statistics(rules.size());
  for (const ids::RuleNumbers& each : numbers) {
    if (each.rule_index >= rules.size()) continue;
    RuleStatistics& its = statistics[each.rule_index];
    std::visit([&](const auto& found) { add(found, its); }, each.numbers);
    const auto* counter = std::get_if<ids::CounterNumbers>(&each.numbers);
    const bool is_only = each.sequence.empty() && each.ns == rules[each.rule_index].ns;
    if (counter != nullptr && is_only) its.next = counter->next;
  }
  return statistics;
}

}  // namespace idproxy::app
