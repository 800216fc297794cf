#include "idproxy/rewrite/given_values.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace idproxy::rewrite {

void GivenSequences::add_value(const ids::Sequences& sequences,
                               std::span<const ids::FieldValue> fields, ids::Opening opening) {
  // Only the date decides: the same for all statements of a command, also at midnight.
  if (fields.empty() && !all.empty()) return of_value.push_back(0);
  add_value(sequences.sequence(fields, opening));
}

void GivenSequences::add_value(std::shared_ptr<ids::Source> sequence) {
  const auto next = static_cast<std::uint32_t>(all.size());
  const auto [its, is_new] = known.emplace(sequence.get(), next);
  if (is_new) all.push_back(std::move(sequence));
  of_value.push_back(its->second);
}

std::vector<std::size_t> GivenSequences::counts() const {
  std::vector<std::size_t> counts(all.size());
  for (const std::uint32_t sequence : of_value) ++counts[sequence];
  return counts;
}

void GivenValues::clear() {
  for (ids::Values& each : values) each.clear();
  given.clear();
  wanted.clear();
  sequences.clear();
  upserts.clear();
  kept.clear();
  opening = ids::Opening::any;
}

std::span<const Given> GivenValues::of(std::int32_t statement) const {
  const auto its = std::ranges::equal_range(given, statement, {}, &Given::statement);
  return {its.begin(), its.end()};
}

std::span<const Kept> GivenValues::kept_of(std::int32_t statement) const {
  const auto its = std::ranges::equal_range(kept, statement, {}, &Kept::statement);
  return {its.begin(), its.end()};
}

std::size_t GivenValues::capacity() const {
  std::size_t size = sizeof *this + given.capacity() * sizeof(Given) +
                     upserts.capacity() * sizeof(UpsertParts) + kept.capacity() * sizeof(Kept);
  for (const ids::Values& each : values) size += each.capacity();
  return size;
}

void number_values(const Plan& plan, GivenValues& given) {
  given.values.resize(plan.size());
  given.wanted.assign(plan.size(), 0);
  for (Given& each : given.given) {
    each.value = static_cast<std::uint32_t>(given.wanted[each.assignment]++);
  }
}

bool needs_turn(const Plan& plan, const GivenValues& given) {
  if (!plan.takes_turns()) return false;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].in_turn && given.wanted[i] > 0) return true;
  }
  return false;
}

namespace {

/// Null for an assignment without sequences.
const GivenSequences* sequences_in(const GivenValues& given, std::size_t assignment) {
  if (given.sequences.empty() || given.sequences[assignment].all.empty()) return nullptr;
  return &given.sequences[assignment];
}

}  // namespace

std::size_t sources_of(const GivenValues& given, std::size_t assignment) {
  const GivenSequences* sequences = sequences_in(given, assignment);
  return sequences == nullptr ? 1 : sequences->all.size();
}

std::size_t source_of(const GivenValues& given, std::size_t assignment, std::uint32_t value) {
  const GivenSequences* sequences = sequences_in(given, assignment);
  return sequences == nullptr ? 0 : sequences->of_value[value];
}

ids::Source& source_at(const Plan& plan, const GivenValues& given, std::size_t assignment,
                       std::size_t source) {
  const GivenSequences* sequences = sequences_in(given, assignment);
  return sequences == nullptr ? *plan[assignment].source : *sequences->all[source];
}

std::vector<FromSource> by_source(const Plan& plan, const GivenValues& given,
                                  std::span<const Given> some) {
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::uint32_t>> values;
  for (const Given& its : some) {
    values[{its.assignment, source_of(given, its.assignment, its.value)}].push_back(its.value);
  }
  std::vector<FromSource> found;
  for (auto& [its, which] : values) {
    std::ranges::sort(which);
    found.push_back({its.first, &source_at(plan, given, its.first, its.second), std::move(which)});
  }
  return found;
}

void give_back(const Plan& plan, const GivenValues& given,
               const std::function<bool(std::size_t)>& is_unused) {
  std::vector<Given> unused;
  for (std::size_t at = 0; at < given.given.size(); ++at) {
    const Assignment& its = plan[given.given[at].assignment];
    const bool lent = !its.in_turn && (its.source == nullptr || its.source->lends());
    if (lent && given.is_drawn(at) && is_unused(at)) unused.push_back(given.given[at]);
  }
  for (const FromSource& its : by_source(plan, given, unused)) {
    its.source->take_back(given.values[its.assignment], its.which);
  }
}

}  // namespace idproxy::rewrite
