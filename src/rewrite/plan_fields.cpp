#include "idproxy/rewrite/plan_fields.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace idproxy::rewrite {

PlanFields::PlanFields(const std::shared_ptr<const Plan>& of) : plan(of) {
  const Plan& assignments = *of;
  has_sequences = std::ranges::any_of(
      assignments, [](const Assignment& each) { return each.sequences != nullptr; });
  if (has_sequences || assignments.size() > bson::FieldFinder::kMost) return;
  std::array<std::string_view, bson::FieldFinder::kMost> first;
  std::array<std::string_view, bson::FieldFinder::kMost> second;
  for (std::size_t i = 0; i < assignments.size(); ++i) {
    const Assignment& each = assignments[i];
    const std::uint32_t bit = std::uint32_t{1} << i;
    first[i] = each.path.front();
    second[i] = each.path[each.path.size() > 1 ? 1 : 0];
    all |= bit;
    const std::size_t names = each.path.size();
    if (names == 1) top_level |= bit;
    if (each.rule->assign == Assign::missing && names == 1) stays |= bit;
    if (each.rule->assign == Assign::missing && names == 2) second_level |= bit;
    if (each.is_id()) front |= bit;
    if (each.is_id() && !each.implied) ids |= bit;
  }
  first_names.emplace(std::span(first).first(assignments.size()));
  if (top_level != all) second_names.emplace(std::span(second).first(assignments.size()));
}

PlanFields& RecentPlans::of(const std::shared_ptr<const Plan>& plan) {
  constexpr std::size_t kMost = 16;
  const auto same = [&](const std::unique_ptr<PlanFields>& fields) {
    return !fields->plan.owner_before(plan) && !plan.owner_before(fields->plan);
  };
  auto found = std::ranges::find_if(plans_, same);
  if (found == plans_.end()) {
    if (plans_.size() == kMost) plans_.pop_back();
    plans_.push_back(std::make_unique<PlanFields>(plan));
    found = plans_.end() - 1;
  }
  std::rotate(plans_.begin(), found, found + 1);
  return *plans_.front();
}

}  // namespace idproxy::rewrite
