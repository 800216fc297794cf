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

}  // namespace idproxy::rewrite
