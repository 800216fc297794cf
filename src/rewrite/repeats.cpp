#include "rewrite/repeats.hpp"

#include <utility>

namespace idproxy::rewrite {

std::uint32_t Repeats::of(std::int32_t statement) const {
  const auto found = all_.find(statement);
  return found == all_.end() ? 0 : found->second.times;
}

void Repeats::add(std::int32_t statement, const Assignment& rule) {
  Repeated& repeated = all_[statement];
  ++repeated.times;
  repeated.rule = &rule;
  repeated.sent = false;
}

void Repeats::sent(std::span<const std::int32_t> statements) {
  if (all_.empty()) return;
  for (const std::int32_t statement : statements) {
    const auto found = all_.find(statement);
    if (found == all_.end() || std::exchange(found->second.sent, true)) continue;
    ++found->second.rule->outcomes->resent;
  }
}

void Repeats::tried(std::span<const std::int32_t> statements,
                    const std::map<std::int32_t, Buffer>& errors) {
  if (all_.empty()) return;
  for (const std::int32_t statement : statements) {
    const auto found = all_.find(statement);
    if (found == all_.end() || errors.contains(statement)) continue;
    ++found->second.rule->outcomes->cured;
    all_.erase(found);
  }
}

void Repeats::give_up(const Assignment& rule, RetryBound ended_by) {
  ++rule.outcomes->given_up;
  given_up_ = {&rule, ended_by};
}

void Repeats::abandon(std::span<const std::int32_t> statements, RetryBound ended_by) {
  for (const std::int32_t statement : statements) {
    const auto found = all_.find(statement);
    if (found != all_.end()) give_up(*found->second.rule, ended_by);
  }
}

}  // namespace idproxy::rewrite
