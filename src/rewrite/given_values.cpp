#include "idproxy/rewrite/given_values.hpp"

#include <algorithm>
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

void by_source(const Plan& plan, const GivenValues& given, std::size_t assignment,
               std::vector<std::uint32_t> which, const UseSource& use) {
  const auto source = [&](std::uint32_t value) { return source_of(given, assignment, value); };
  if (sources_of(given, assignment) > 1) {
    std::ranges::sort(which, {},
                      [&](std::uint32_t value) { return std::pair(source(value), value); });
  }
  for (auto begin = which.begin(); begin != which.end();) {
    const std::size_t its = source(*begin);
    const auto end =
        std::find_if(begin, which.end(), [&](std::uint32_t value) { return source(value) != its; });
    use(source_at(plan, given, assignment, its), {begin, end});
    begin = end;
  }
}

void by_source(const Plan& plan, const GivenValues& given, std::span<const std::size_t> places,
               const std::function<void(std::size_t assignment, ids::Source& source,
                                        std::span<const std::uint32_t> which)>& use) {
  std::vector<std::vector<std::uint32_t>> values(plan.size());
  for (const std::size_t at : places) {
    values[given.given[at].assignment].push_back(given.given[at].value);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    std::ranges::sort(values[i]);
    by_source(plan, given, i, std::move(values[i]),
              [&](ids::Source& source, auto which) { use(i, source, which); });
  }
}

void give_back(const Plan& plan, const GivenValues& given,
               const std::function<bool(std::size_t)>& is_unused) {
  std::vector<std::size_t> unused;
  for (std::size_t at = 0; at < given.given.size(); ++at) {
    const Assignment& its = plan[given.given[at].assignment];
    const bool lent = !its.in_turn && (its.source == nullptr || its.source->lends());
    if (lent && given.is_drawn(at) && is_unused(at)) unused.push_back(at);
  }
  by_source(plan, given, unused, [&](std::size_t i, ids::Source& source, auto which) {
    source.take_back(given.values[i], which);
  });
}

}  // namespace idproxy::rewrite
