#include <algorithm>
#include <utility>

#include "idproxy/ids/block_cache.hpp"

// The numbers that a BlockCache holds.
namespace idproxy::ids {

/// Puts unused numbers, given in the order of handing out, back to their places. A range that is
/// put back while the others are set aside is treated as one of them.
void BlockCache::put_back(std::vector<Range> sorted) {
  const Int128 from = aside_ ? aside_valid_from_ : valid_from_;
  std::erase_if(sorted, [&](const Range& range) {
    return range.count == 0 || steps_.before(range.first, from) ||
           steps_.before(*end_, steps_.end(range));
  });
  NumberRanges& numbers = usable();
  const std::uint64_t before = numbers.count();
  numbers.put(sorted);
  put_back_ += numbers.count() - before;
  clip(numbers);  // max may have been lowered since these numbers were handed out
}

/// Adds a new block, which lies behind end_. Of numbers beyond max it only remembers the end. After
/// set_aside(), its numbers are set aside, too.
void BlockCache::add(Range block) {
  if (!end_) valid_from_ = block.first;
  if (!end_ || *end_ != block.first) {
    before_run_ = end_;
    run_first_ = block.first;
  }
  end_ = steps_.end(block);
  block = up_to_max(block);
  usable_end_ = steps_.end(block);
  if (block.count > 0) usable().put({block});
}

/// Hands out none of the held numbers until the heal has ended, restore() or drop(); the same holds
/// for those that are added or put back meanwhile.
void BlockCache::set_aside() {
  aside_ = std::exchange(free_, NumberRanges(steps_));
  aside_valid_from_ = valid_from_;
  if (end_) valid_from_ = *end_;
}

/// There is no heal after all: hands out again what set_aside() has put away, if anything.
void BlockCache::restore() {
  if (!aside_) return;
  free_ = std::move(*aside_);
  aside_.reset();
  valid_from_ = aside_valid_from_;
}

/// Drops all numbers that are held or set aside.
void BlockCache::drop() {
  free_.clear();
  aside_.reset();
  if (end_) valid_from_ = *end_;
}

/// The last held range, extended to end_, if none of the numbers after it are in use: only these
/// numbers can be given back to the store. They reach up to the counter's value, which lies beyond
/// max if the store went too far.
std::optional<Range> BlockCache::unused_end() const {
  const auto last = free_.last();
  if (!last || !end_ || steps_.end(*last) != *usable_end_) return std::nullopt;
  const auto count = static_cast<std::uint64_t>((*end_ - last->first) / steps_.step());
  return Range{last->first, count};
}

/// The unused end, which begins with `first`, was given back, or may have been. From now on, a
/// block that begins with `first` does not mean that the counter went back. If all numbers in a row
/// were given back, the numbers before them may belong to another process, which can give them
/// back, too.
void BlockCache::cut(std::int64_t first) {
  end_ = first;
  if (end_ == run_first_) {
    end_ = std::exchange(before_run_, std::nullopt);
    run_first_.reset();
  }
  usable_end_ = end_;
  if (end_ && steps_.before(*end_, valid_from_)) valid_from_ = *end_;
}

/// Drops all held numbers. Nothing else changes: numbers that are in use can still be put back.
void BlockCache::lose_held() {
  for (const Range& range : free_.all()) lost_.push_back(range);
  free_.clear();
}

/// The same, except for the last range.
void BlockCache::lose_older() {
  const auto last = free_.last();
  if (!last) return;
  free_.drop_last();
  lose_held();
  free_.put({*last});
}

/// The part of a range that is not beyond max.
Range BlockCache::up_to_max(Range range) const {
  return {range.first, std::min(range.count, steps_.count(range.first, spec_.max))};
}

/// Removes numbers beyond max, which can only be at the end.
void BlockCache::clip(NumberRanges& numbers) {
  while (const auto last = numbers.last()) {
    const Range usable_part = up_to_max(*last);
    if (usable_part.count == last->count) return;
    if (steps_.end(*last) == usable_end_) usable_end_ = steps_.end(usable_part);
    numbers.drop_last();
    if (usable_part.count > 0) numbers.put({usable_part});
  }
}

/// Numbers up to end_ belong to this process, even those that the old max excluded.
void BlockCache::put_what_was_beyond_max() {
  if (!end_ || !steps_.before(*usable_end_, *end_)) return;
  const auto first = static_cast<std::int64_t>(*usable_end_);
  const auto ours = static_cast<std::uint64_t>((*end_ - first) / steps_.step());
  const Range beyond = up_to_max({first, ours});
  if (beyond.count == 0) return;
  usable().put({beyond});
  usable_end_ = steps_.end(beyond);
}

}  // namespace idproxy::ids
