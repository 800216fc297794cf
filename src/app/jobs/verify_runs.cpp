#include "app/jobs/verify_runs.hpp"

#include <algorithm>
#include <iterator>

namespace idproxy::app::jobs {
namespace {

/// b - a, if a <= b, which int64 may not hold.
std::uint64_t distance_of(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(b) - static_cast<std::uint64_t>(a);
}

std::uint64_t size_of_step(std::int64_t step) {
  const std::uint64_t size = step < 0 ? distance_of(step, 0) : static_cast<std::uint64_t>(step);
  return std::max<std::uint64_t>(size, 1);
}

}  // namespace

VerifyRuns::VerifyRuns(std::int64_t step, std::size_t most)
    : step_(size_of_step(step)), most_(most) {}

bool VerifyRuns::follow(std::int64_t a, std::int64_t b) const {
  return distance_of(a, b) == step_;
}

void VerifyRuns::add(std::int64_t number) {
  const auto above = runs_.upper_bound(number);
  const bool has_below = above != runs_.begin();
  const auto below = has_below ? std::prev(above) : above;
  if (has_below && number <= below->second) return;
  ++numbers_;
  const bool joins_above = above != runs_.end() && follow(number, above->first);
  if (has_below && follow(below->second, number)) {
    below->second = joins_above ? above->second : number;
    if (joins_above) runs_.erase(above);
    return;
  }
  const std::int64_t last = joins_above ? above->second : number;
  if (joins_above) runs_.erase(above);
  runs_.emplace(number, last);
  if (runs_.size() > most_) close_lowest();
}

/// How many numbers there could be between two runs.
std::uint64_t VerifyRuns::between(std::int64_t a, std::int64_t b) const {
  return (distance_of(a, b) - 1) / step_;
}

void VerifyRuns::close_lowest() {
  const auto lowest = runs_.begin();
  const auto next = std::next(lowest);
  if (closed_.size() < kMostRemembered) closed_.push_back(gaps(closed_.size() + 1).back());
  ++closed_count_;
  closed_missing_ += between(lowest->second, next->first);
  lowest->second = next->second;
  runs_.erase(next);
}

std::uint64_t VerifyRuns::missing() const {
  std::uint64_t missing = closed_missing_;
  for (auto run = runs_.begin(); run != runs_.end() && std::next(run) != runs_.end(); ++run) {
    missing += between(run->second, std::next(run)->first);
  }
  return missing;
}

std::vector<VerifyRuns::Gap> VerifyRuns::gaps(std::size_t most) const {
  const auto step = static_cast<std::int64_t>(step_);
  std::vector<Gap> gaps(closed_.begin(), closed_.begin() + static_cast<std::ptrdiff_t>(
                                                               std::min(most, closed_.size())));
  for (auto run = runs_.begin(); run != runs_.end() && gaps.size() < most; ++run) {
    const auto next = std::next(run);
    if (next == runs_.end()) break;
    gaps.push_back({run->second + step, next->first - step});
  }
  return gaps;
}

}  // namespace idproxy::app::jobs
