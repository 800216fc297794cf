#include "app/state/rule_figures.hpp"

#include <algorithm>
#include <string>
#include <variant>

namespace idproxy::app::state {

void RuleFigures::add(const ids::CounterNumbers& counter) {
  held = held.value_or(0) + counter.held;
  if (counter.left) left = std::min(left.value_or(*counter.left), *counter.left);
  if (counter.ranges) live_ranges = counter.ranges->live;
}

void RuleFigures::add(const ids::SpaceUse& space) {
  if (fill && *fill >= space.fill) return;
  documents = space.documents;
  fill = space.fill;
  max_fill = space.max_fill;
}

std::vector<RuleFigures> figures_of(const Snapshot& snapshot) {
  std::vector<RuleFigures> figures;
  for (const rewrite::Rule& rule : snapshot.rules->rules()) {
    const std::size_t i = figures.size();
    RuleFigures& its = figures.emplace_back();
    its.labels = {{"rule", std::to_string(i + rule.nones_before)},
                  {"ns", rule.ns},
                  {"field", rule.field},
                  {"strategy", rule.strategy_name}};
    if (i < snapshot.not_ready.size()) its.not_ready = snapshot.not_ready[i];
    const id_store::MissingIndex* lacks = snapshot.unguarded_of(i);
    its.unguarded = lacks == nullptr ? 0 : lacks->collections;
    its.run_out = std::ranges::count(snapshot.run_out, i, &RunOut::Warning::rule_index);
  }
  for (const ids::RuleNumbers& each : snapshot.numbers) {
    if (each.rule_index >= figures.size()) continue;
    RuleFigures& its = figures[each.rule_index];
    std::visit([&](const auto& found) { its.add(found); }, each.numbers);
    const auto* counter = std::get_if<ids::CounterNumbers>(&each.numbers);
    const bool is_only =
        each.sequence.empty() && each.ns == snapshot.rules->rules()[each.rule_index].ns;
    if (counter != nullptr && is_only) its.next = counter->next;
  }
  return figures;
}

}  // namespace idproxy::app::state
