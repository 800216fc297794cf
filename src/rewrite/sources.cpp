#include "idproxy/rewrite/sources.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::rewrite {
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

}  // namespace idproxy::rewrite
