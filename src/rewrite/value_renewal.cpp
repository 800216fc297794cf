#include "value_renewal.hpp"

#include <algorithm>

namespace idproxy::rewrite {

void ValueRenewal::start(std::vector<Collision> collisions) {
  collisions_ = std::move(collisions);
  assignment_ = 0;
  asked_ = false;
  want_next_rule();
}

/// Moves on to the next rule, from assignment_ on, that has values to renew.
void ValueRenewal::want_next_rule() {
  wanted_.clear();
  for (; assignment_ < plan_.size(); ++assignment_) {
    for (Collision& collision : collisions_) {
      if (!collision.again) continue;
      for (const std::size_t at : collision.given) {
        if (given_.given[at].assignment == assignment_) wanted_.emplace_back(&collision, at);
      }
    }
    if (!wanted_.empty()) break;
  }
  done_ = 0;
  count_ = wanted_.size();
}

std::optional<ValueRenewal::Question> ValueRenewal::draw() {
  while (assignment_ < plan_.size()) {
    const Assignment& target = plan_[assignment_];
    ids::Values& values = given_.values[assignment_];
    while (count_ > 0) {
      const std::size_t first = values.size();
      const auto drawn = target.strategy->next(count_, values);
      if (drawn) {
        renewed(first);
      } else if (drawn.needs_store()) {
        asked_ = true;
        return Question{&target, count_};
      } else {
        count_ /= 2;
      }
    }
    leave_behind();
  }
  return std::nullopt;
}

void ValueRenewal::answered(ids::Result<ids::Grant> grant) {
  ids::Values& values = given_.values[assignment_];
  const std::size_t first = values.size();
  if (grant) {
    plan_[assignment_].strategy->store_backed()->accept(std::move(*grant), values);
    renewed(first);
  } else if (grant.error().code == ids::Errc::unavailable) {
    count_ = 0;
  } else {
    count_ /= 2;
  }
}

/// Gives the drawn values, from `first` on, to the next of the wanted places.
void ValueRenewal::renewed(std::size_t first) {
  for (std::size_t i = 0; i < count_; ++i, ++done_) {
    const std::size_t at = wanted_[done_].second;
    given_.given[at].value = static_cast<std::uint32_t>(first + i);
    taken_.renewed(at);
  }
  count_ = std::min(count_, wanted_.size() - done_);
}

/// Gives up on the places that are left of this rule, and moves on to the next rule.
void ValueRenewal::leave_behind() {
  for (std::size_t i = done_; i < wanted_.size(); ++i) wanted_[i].first->again = false;
  ++assignment_;
  want_next_rule();
}

}  // namespace idproxy::rewrite
