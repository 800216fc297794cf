#include "retry_budget.hpp"

#include <algorithm>
#include <utility>

namespace idproxy::rewrite {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Two proxies that write to one sequence would otherwise take each other's numbers all the time.
constexpr milliseconds kLeastInTurn{1};

/// The pause before a statement that has been repeated `repeats` times is sent again.
milliseconds backoff(const Assignment& assignment, std::uint32_t repeats) {
  const Retry& retry = assignment.rule->retry;
  milliseconds pause = retry.backoff;
  if (assignment.strategy->in_turn()) pause = std::max(pause, kLeastInTurn);
  for (; repeats > 0 && pause < retry.backoff_max; --repeats) pause *= 2;
  return std::min(pause, retry.backoff_max);
}

}  // namespace

std::optional<std::int64_t> RetryBudget::time_left(nanoseconds now) const {
  if (!max_time_ms_) return std::nullopt;
  const auto spent = std::chrono::duration_cast<milliseconds>(now - started_);
  return *max_time_ms_ - spent.count();
}

void RetryBudget::start(nanoseconds now) {
  if (!first_duplicate_) first_duplicate_ = now;
}

bool RetryBudget::allows(std::span<const Assignment* const> taken, std::uint32_t repeats,
                         nanoseconds now) {
  nanoseconds pause = pause_;
  for (const Assignment* assignment : taken) {
    const Retry& retry = assignment->rule->retry;
    if (repeats >= assignment->attempts()) return false;
    pause = std::max<nanoseconds>(pause, backoff(*assignment, repeats));
    if (now - *first_duplicate_ + pause >= retry.deadline) return false;
  }
  const auto left = time_left(now + pause);
  if (left && *left <= 0) return false;
  pause_ = pause;
  return true;
}

nanoseconds RetryBudget::take_pause(RandomSource& random) {
  const nanoseconds pause = std::exchange(pause_, {});
  if (pause.count() == 0) return pause;
  const nanoseconds half = pause / 2;
  const auto rest = static_cast<std::uint64_t>((pause - half).count());
  return half + nanoseconds(uniform(random, rest + 1));
}

nanoseconds RetryBudget::patience(const Rule& rule, const ids::StoreBacked& asked,
                                  nanoseconds now) const {
  const nanoseconds left = rule.retry.deadline - (now - *first_duplicate_);
  return std::clamp<nanoseconds>(left, nanoseconds(0), asked.patience());
}

}  // namespace idproxy::rewrite
