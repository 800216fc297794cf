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

std::optional<std::uint64_t> ForwardedLog::add(std::string_view ns, ForwardReason reason,
                                               std::uint64_t upserts,
                                               std::chrono::nanoseconds now) {
  const std::scoped_lock lock(mutex_);
  Line& its = line(ns, reason, now);
  its.upserts += upserts;
  if (its.logged && now - *its.logged < kEvery) return std::nullopt;
  its.logged = now;
  return std::exchange(its.upserts, 0);
}

ForwardedLog::Line& ForwardedLog::line(std::string_view ns, ForwardReason reason,
                                       std::chrono::nanoseconds now) {
  Key key(ns, reason);
  if (lines_.size() < kMostLines || lines_.contains(key)) return lines_[std::move(key)];
  Line& others = lines_[{"", reason}];
  // Once an hour: makes room by lines with nothing to say.
  if (!others.logged || now - *others.logged >= kEvery) {
    std::erase_if(lines_, [&](const auto& each) {
      const Line& other = each.second;
      return &other != &others && other.upserts == 0 && now - *other.logged >= kEvery;
    });
  }
  return others;
}

}  // namespace idproxy::rewrite
