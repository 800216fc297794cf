#include "idproxy/ids/held_numbers.hpp"

#include <algorithm>

namespace idproxy::ids {
namespace {

/// The part of a range that is not beyond `max`.
Range up_to_max(Range range, const Steps& steps, std::int64_t max) {
  return {range.first, std::min(range.count, steps.count(range.first, max))};
}

}  // namespace

/// A range that is put back while the others are set aside is treated as one of them.
void HeldNumbers::put_back(std::vector<Range> sorted) {
  if (!end_) return;
  const Int128 from = aside_ ? aside_valid_from_ : valid_from_;
  std::erase_if(sorted, [&](const Range& range) {
    return range.count == 0 || steps_.before(range.first, from) ||
           steps_.before(*end_, steps_.end(range));
  });
  NumberRanges& numbers = usable();
  const std::uint64_t before = numbers.count();
  numbers.put(sorted);
  put_back_ = std::min(taken_, put_back_ + numbers.count() - before);
  clip(numbers);  // max may have been lowered since these numbers were handed out
}

void HeldNumbers::add(Range block) {
  if (!end_) valid_from_ = block.first;
  if (!end_ || *end_ != block.first) {
    before_run_ = end_;
    run_first_ = block.first;
  }
  end_ = steps_.end(block);
  put_last(block);
}

void HeldNumbers::set_aside() {
  aside_ = std::exchange(free_, NumberRanges(steps_));
  aside_valid_from_ = valid_from_;
  if (end_) valid_from_ = *end_;
}

void HeldNumbers::restore(const std::vector<Range>& taken) {
  usable().remove(taken);
  if (!aside_) return;
  free_ = std::move(*aside_);
  aside_.reset();
  valid_from_ = aside_valid_from_;
}

void HeldNumbers::drop() {
  free_.clear();
  aside_.reset();
  usable_end_ = end_;
  if (end_) valid_from_ = *end_;
}

void HeldNumbers::begin_at(std::int64_t first) {
  aside_.reset();
  lose_all();  // those of a heal that a stop has overtaken
  valid_from_ = first;
}

std::optional<Range> HeldNumbers::unused_end() const {
  const auto last = free_.last();
  if (!last || !end_ || steps_.end(*last) != *usable_end_) return std::nullopt;
  const auto count = static_cast<std::uint64_t>((*end_ - last->first) / steps_.step());
  return Range{last->first, count};
}

std::optional<Range> HeldNumbers::take_unused_end() {
  const auto unused = unused_end();
  if (unused) {
    free_.drop_last();
    usable_end_ = end_;  // numbers beyond max are on their way, too
  }
  lose_all();
  return unused;
}

void HeldNumbers::keep(Range unused) {
  put_last(unused);
}

void HeldNumbers::lose(Range unused) {
  unused = up_to_max(unused, steps_, max_);
  usable_end_ = steps_.end(unused);
  if (unused.count > 0) lost_.push_back(unused);
}

void HeldNumbers::cut(std::int64_t first) {
  const Int128 before = *end_;
  end_ = first;
  if (run_first_ && !steps_.before(*run_first_, first)) {
    end_ = std::exchange(before_run_, std::nullopt);
    run_first_.reset();
  }
  usable_end_ = end_;
  if (end_ && steps_.before(*end_, valid_from_)) valid_from_ = *end_;
  // Some may have returned meanwhile, to another cache than had handed them out.
  if (!end_) return usable().clear();
  const auto count = static_cast<std::uint64_t>((before - *end_) / steps_.step());
  usable().remove({{static_cast<std::int64_t>(*end_), count}});
}

void HeldNumbers::lose_all() {
  for (const Range& range : free_.all()) lost_.push_back(range);
  free_.clear();
}

void HeldNumbers::lose_older() {
  const auto last = free_.last();
  if (!last) return;
  free_.drop_last();
  lose_all();
  free_.put({*last});
}

/// The range ends with end_.
void HeldNumbers::put_last(Range range) {
  range = up_to_max(range, steps_, max_);
  usable_end_ = steps_.end(range);
  if (range.count > 0) usable().put({range});
}

/// Removes numbers beyond max, which can only be at the end. Those behind others that are in use
/// are lost: only what is next to usable_end_ comes back with a larger max.
void HeldNumbers::clip(NumberRanges& numbers) {
  while (const auto last = numbers.last()) {
    const Range usable_part = up_to_max(*last, steps_, max_);
    if (usable_part.count == last->count) return;
    const Int128 from = steps_.end(usable_part);
    if (steps_.end(*last) == usable_end_) {
      usable_end_ = from;
    } else {
      lost_.push_back({static_cast<std::int64_t>(from), last->count - usable_part.count});
    }
    numbers.drop_last();
    if (usable_part.count > 0) numbers.put({usable_part});
  }
}

/// Numbers up to end_ belong to this process, even those that the old max excluded.
void HeldNumbers::change_max(std::int64_t max) {
  max_ = max;
  clip(free_);
  if (aside_) clip(*aside_);
  if (!end_ || !steps_.before(*usable_end_, *end_)) return;
  const auto first = static_cast<std::int64_t>(*usable_end_);
  const auto ours = static_cast<std::uint64_t>((*end_ - first) / steps_.step());
  put_last({first, ours});
}

bool HeldNumbers::check() const {
  const auto is_before = [this](const auto& a, const auto& b) {
    return !a || (b && !steps_.before(*b, *a));  // or both are the same
  };
  // All of them are from the last heal on, up to the end and to max.
  const auto are_known = [this](const NumberRanges& numbers, Int128 from) {
    const auto last = numbers.last();
    return !last || (end_ && !steps_.before(*numbers.next(), from) &&
                     !steps_.before(*usable_end_, steps_.end(*last)) &&
                     up_to_max(*last, steps_, max_) == *last);
  };
  const bool knows_ends = end_.has_value() == usable_end_.has_value() &&
                          is_before(usable_end_, end_) && is_before(run_first_, end_) &&
                          is_before(before_run_, run_first_);
  const bool knows_heal =
      (!end_ || !steps_.before(*end_, valid_from_)) &&
      (!aside_ || (free_.count() == 0 && are_known(*aside_, aside_valid_from_)));
  return knows_ends && knows_heal && are_known(free_, valid_from_) && put_back_ <= taken_;
}

}  // namespace idproxy::ids
