#include "idproxy/rewrite/outcomes.hpp"

namespace idproxy::rewrite {

bool RuleOutcomes::may_run_again(std::chrono::nanoseconds now, std::uint32_t most) {
  const auto since = now - std::chrono::nanoseconds(first_abort_.load());
  if (aborts_.load() == 0 || since > kRow) {
    first_abort_ = now.count();
    aborts_ = 0;
  }
  if (aborts_.load() >= most) return false;
  ++aborts_;
  return true;
}

bool RuleOutcomes::may_log_forwarded(std::chrono::nanoseconds now) {
  constexpr std::chrono::nanoseconds kEvery = std::chrono::hours(1);
  std::int64_t last = forwarded_logged_.load();
  if (last != kNever && now.count() - last < kEvery.count()) return false;
  return forwarded_logged_.compare_exchange_strong(last, now.count());
}

}  // namespace idproxy::rewrite
