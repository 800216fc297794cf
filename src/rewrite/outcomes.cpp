#include "idproxy/rewrite/outcomes.hpp"

#include <numeric>

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

std::uint64_t Outcomes::sum(RuleOutcomes::Counter RuleOutcomes::* counter) const {
  return std::accumulate(rules_.begin(), rules_.end(), std::uint64_t{0},
                         [&](std::uint64_t total, const RuleOutcomes& rule) {
                           return total + (rule.*counter).load();
                         });
}

}  // namespace idproxy::rewrite
