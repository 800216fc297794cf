#include "id_store/outliers.hpp"

#include <algorithm>

namespace idproxy::id_store {
namespace {

// More numbers than any counter gives out: 30 years at 10,000 a second.
constexpr std::uint64_t kNever = 10'000'000'000'000;

}  // namespace

bool is_jump_too_large(const Numbers& numbers, std::uint64_t max_jump, std::int64_t from,
                       std::int64_t number) {
  return numbers.is_ahead(number, from) && Numbers::distance(number, from) > max_jump;
}

/// From the furthest gap to the nearest one, as long as the numbers beyond it are outliers.
std::size_t count_outliers(const Numbers& numbers, std::uint64_t max_jump, std::int64_t from,
                           std::span<const std::int64_t> furthest, MayMeet may_meet) {
  const std::uint64_t step = Numbers::distance(numbers.step(), 0);
  std::size_t outliers = 0;
  for (std::size_t beyond = 1; beyond <= furthest.size() && beyond <= kMostOutliers; ++beyond) {
    const std::int64_t nearest = furthest[beyond - 1];
    const std::int64_t next =
        beyond < furthest.size() ? numbers.further(furthest[beyond], from) : from;
    if (!is_jump_too_large(numbers, max_jump, next, nearest)) continue;
    const bool uses_up =
        Numbers::distance(nearest, from) > Numbers::distance(numbers.max(), nearest);
    const bool are_few = furthest.size() - beyond > beyond || uses_up;
    const bool is_out_of_reach = Numbers::distance(nearest, next) / step >= kNever;
    if (!are_few || (may_meet == MayMeet::no && !is_out_of_reach)) break;
    outliers = beyond;
  }
  return outliers;
}

std::size_t count_outliers_of_latest(std::span<const std::int64_t> furthest) {
  if (furthest.empty()) return 0;
  const std::int64_t median = furthest[furthest.size() / 2];
  const std::int64_t lower = furthest[furthest.size() * 3 / 4];
  const std::uint64_t near = 100 * (Numbers::distance(median, lower) + furthest.size());
  const auto is_outlier = [&](std::int64_t number) {
    return number > median && Numbers::distance(number, median) > near;
  };
  return static_cast<std::size_t>(std::ranges::count_if(furthest, is_outlier));
}

}  // namespace idproxy::id_store
