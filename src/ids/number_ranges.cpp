#include "idproxy/ids/number_ranges.hpp"

#include <algorithm>
#include <limits>

namespace idproxy::ids {

std::uint64_t Steps::count(Int128 first, std::int64_t last) const {
  if (before(last, first)) return 0;
  const Int128 count = (last - first) / step_ + 1;
  // There are 2^64 int64 numbers, one more than fits.
  return static_cast<std::uint64_t>(
      std::min<Int128>(count, std::numeric_limits<std::uint64_t>::max()));
}

void NumberRanges::take(std::uint64_t n, std::vector<Range>& out) {
  count_ -= n;
  while (n > 0) {
    Range& next = reversed_.back();
    const std::uint64_t taken = std::min(n, next.count);
    out.push_back({next.first, taken});
    n -= taken;
    if (taken == next.count) {
      reversed_.pop_back();
    } else {
      next = {static_cast<std::int64_t>(steps_.end({next.first, taken})), next.count - taken};
    }
  }
}

/// Puts a range in front of all others; does nothing if it overlaps with them.
void NumberRanges::push(Range range) {
  if (!reversed_.empty()) {
    Range& next = reversed_.back();
    const Int128 end = steps_.end(range);
    if (steps_.before(next.first, end)) return;
    if (end == next.first) {
      next = {range.first, range.count + next.count};
      count_ += range.count;
      return;
    }
  }
  reversed_.push_back(range);
  count_ += range.count;
}

void NumberRanges::put(const std::vector<Range>& sorted) {
  // Removes the ranges before the last one of `sorted`, then puts all back from the last one on.
  std::vector<Range> between;
  while (!sorted.empty() && !reversed_.empty() &&
         steps_.before(reversed_.back().first, sorted.back().first)) {
    between.push_back(reversed_.back());
    count_ -= reversed_.back().count;
    reversed_.pop_back();
  }
  auto mine = between.rbegin();
  for (auto theirs = sorted.rbegin(); theirs != sorted.rend(); ++theirs) {
    for (; mine != between.rend() && !steps_.before(mine->first, theirs->first); ++mine) {
      push(*mine);
    }
    // Skips numbers that are already here: to lose them is better than to hand them out twice.
    const bool inside = mine != between.rend() && steps_.before(theirs->first, steps_.end(*mine));
    if (!inside) push(*theirs);
  }
  for (; mine != between.rend(); ++mine) push(*mine);
}

void NumberRanges::remove(const std::vector<Range>& sorted) {
  std::vector<Range> left;
  const auto keep = [&](Int128 first, Int128 end) {
    if (!steps_.before(first, end)) return;
    left.push_back({static_cast<std::int64_t>(first),
                    static_cast<std::uint64_t>((end - first) / steps_.step())});
  };
  auto theirs = sorted.begin();
  for (const Range& mine : all()) {
    Int128 first = mine.first;
    const Int128 end = steps_.end(mine);
    for (; theirs != sorted.end() && steps_.before(theirs->first, end); ++theirs) {
      keep(first, theirs->first);
      if (steps_.before(first, steps_.end(*theirs))) first = steps_.end(*theirs);
      if (steps_.before(end, first)) break;  // it reaches into the next one
    }
    keep(first, end);
  }
  clear();
  put(left);
}

std::optional<std::int64_t> NumberRanges::next() const {
  if (reversed_.empty()) return std::nullopt;
  return reversed_.back().first;
}

std::optional<Range> NumberRanges::last() const {
  if (reversed_.empty()) return std::nullopt;
  return reversed_.front();
}

void NumberRanges::drop_last() {
  count_ -= reversed_.front().count;
  reversed_.erase(reversed_.begin());
}

void NumberRanges::clear() {
  reversed_.clear();
  count_ = 0;
}

}  // namespace idproxy::ids
