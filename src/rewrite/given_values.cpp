#include "idproxy/rewrite/given_values.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "idproxy/rewrite/write_reply.hpp"

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

bool stores_nothing(std::int64_t code) {
  constexpr std::int64_t kUnauthorized = 13;
  constexpr std::int64_t kInvalidNamespace = 73;
  constexpr std::int64_t kCommandNotSupportedOnView = 166;
  return code == kUnauthorized || code == kInvalidNamespace || code == kCommandNotSupportedOnView;
}

bool denies(Bytes error) {
  // BadValue, FailedToParse, Unauthorized, TypeMismatch, PathNotViable, DollarPrefixedFieldName,
  // InvalidIdField, EmptyFieldName, DottedFieldName, DocumentValidationFailure,
  // BSONObjectTooLarge, geo keys that cannot be extracted
  static constexpr std::array<std::int64_t, 12> kRefusals = {2,  9,  13, 14,  28,    52,
                                                             53, 56, 57, 121, 10334, 16755};
  const auto code = bson::find(error, "code");
  const auto number = code ? code->as_integer() : std::nullopt;
  if (number == kDuplicateKey) return bson::find(error, "keyPattern").has_value();
  return number && std::ranges::find(kRefusals, *number) != kRefusals.end();
}

void give_back(const Plan& plan, const GivenValues& given,
               const std::function<bool(std::size_t)>& is_unused) {
  std::vector<std::vector<std::uint32_t>> values(plan.size());
  for (std::size_t at = 0; at < given.given.size(); ++at) {
    const Given& each = given.given[at];
    const ids::Source* source = plan[each.assignment].source.get();
    const bool lent = source == nullptr || source->lends();
    if (lent && is_unused(at)) values[each.assignment].push_back(each.value);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    std::ranges::sort(values[i]);
    by_source(plan, given, i, std::move(values[i]),
              [&](ids::Source& source, auto which) { source.take_back(given.values[i], which); });
  }
}

}  // namespace idproxy::rewrite
