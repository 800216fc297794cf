#include "idproxy/ids/held_numbers.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace idproxy::ids {

HeldNumbers::HeldNumbers(std::int64_t step, std::int64_t max)
    : steps_(step), max_(max), free_(steps_) {}

std::optional<std::int64_t> HeldNumbers::next() const {
  if (const auto held = free_.next()) return held;
  if (!end_ || steps_.count(*end_, max_) == 0) return std::nullopt;
  return static_cast<std::int64_t>(*end_);
}

std::optional<std::uint64_t> HeldNumbers::left() const {
  if (!end_) return std::nullopt;
  // There are 2^64 int64 numbers, one more than fits.
  const std::uint64_t beyond = steps_.count(*end_, max_);
  return count() + std::min(beyond, std::numeric_limits<std::uint64_t>::max() - count());
}

void HeldNumbers::take_back(std::vector<Range> sorted) {
  std::erase_if(sorted, [&](const Range& range) { return !is_valid(range); });
  NumberRanges& numbers = usable();
  const std::uint64_t before = numbers.count();
  numbers.put(sorted);
  put_back_ += numbers.count() - before;
  clip(numbers);  // max may have been lowered since these numbers were handed out
}

/// A range that is put back while the others are set aside is treated as one of them.
bool HeldNumbers::is_valid(const Range& range) const {
  const Int128 from = aside_ ? aside_valid_from_ : valid_from_;
  return !steps_.before(range.first, from) && !steps_.before(*end_, steps_.end(range));
}

std::uint64_t HeldNumbers::count_valid(std::span<const std::int64_t> numbers) const {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      numbers, [&](std::int64_t number) { return !steps_.before(number, valid_from_); }));
}

void HeldNumbers::add(Range block) {
  if (!end_) valid_from_ = block.first;
  note_end(block);
  block = up_to_max(block);
  usable_end_ = steps_.end(block);
  if (block.count > 0) usable().put({block});
}

void HeldNumbers::replace(Range block) {
  aside_.reset();
  valid_from_ = block.first;
  add(block);
}

void HeldNumbers::set_aside() {
  aside_ = std::exchange(free_, NumberRanges(steps_));
  aside_valid_from_ = valid_from_;
  if (end_) valid_from_ = *end_;
}

void HeldNumbers::restore() {
  if (!aside_) return;
  free_ = std::move(*aside_);
  aside_.reset();
  valid_from_ = aside_valid_from_;
}

void HeldNumbers::restore_without(const std::vector<Range>& taken) {
  usable().remove(taken);
  restore();
}

std::vector<Range> HeldNumbers::aside() const {
  return aside_ ? aside_->all() : std::vector<Range>();
}

void HeldNumbers::drop() {
  free_.clear();
  aside_.reset();
  if (end_) valid_from_ = *end_;
}

std::optional<Range> HeldNumbers::unused_end() const {
  const auto last = free_.last();
  if (!last || !end_ || steps_.end(*last) != *usable_end_) return std::nullopt;
  const auto count = static_cast<std::uint64_t>((*end_ - last->first) / steps_.step());
  return Range{last->first, count};
}

std::vector<Range> HeldNumbers::take_unused_end() {
  free_.drop_last();
  return lose_all();
}

std::vector<Range> HeldNumbers::lose_all() {
  std::vector<Range> lost = free_.all();
  free_.clear();
  return lost;
}

std::vector<Range> HeldNumbers::lose_older() {
  const auto last = free_.last();
  if (!last) return {};
  free_.drop_last();
  std::vector<Range> lost = lose_all();
  free_.put({*last});
  return lost;
}

void HeldNumbers::put_unused_end(Range unused) {
  unused = up_to_max(unused);
  if (unused.count > 0) usable().put({unused});
}

/// From now on, a block that begins with `first` does not mean that the counter went back. If all
/// numbers in a row were given back, the numbers before them may belong to another process, which
/// can give them back, too.
void HeldNumbers::cut(std::int64_t first) {
  end_ = first;
  if (end_ == run_first_) {
    end_ = std::exchange(before_run_, std::nullopt);
    run_first_.reset();
  }
  usable_end_ = end_;
  if (end_ && steps_.before(*end_, valid_from_)) valid_from_ = *end_;
}

void HeldNumbers::note_end(Range block) {
  if (!end_ || *end_ != block.first) {
    before_run_ = end_;
    run_first_ = block.first;
  }
  end_ = steps_.end(block);
}

void HeldNumbers::change_max(std::int64_t max) {
  max_ = max;
  clip(free_);
  if (aside_) clip(*aside_);
  put_what_was_beyond_max();
}

Range HeldNumbers::up_to_max(Range range) const {
  return {range.first, std::min(range.count, steps_.count(range.first, max_))};
}

/// Removes numbers beyond max, which can only be at the end.
void HeldNumbers::clip(NumberRanges& numbers) {
  while (const auto last = numbers.last()) {
    const Range usable_part = up_to_max(*last);
    if (usable_part.count == last->count) return;
    if (steps_.end(*last) == usable_end_) usable_end_ = steps_.end(usable_part);
    numbers.drop_last();
    if (usable_part.count > 0) numbers.put({usable_part});
  }
}

/// Numbers up to end_ belong to this process, even those that the old max excluded.
void HeldNumbers::put_what_was_beyond_max() {
  if (!end_ || !steps_.before(*usable_end_, *end_)) return;
  const auto first = static_cast<std::int64_t>(*usable_end_);
  const auto ours = static_cast<std::uint64_t>((*end_ - first) / steps_.step());
  const Range beyond = up_to_max({first, ours});
  if (beyond.count == 0) return;
  usable().put({beyond});
  usable_end_ = steps_.end(beyond);
}

}  // namespace idproxy::ids
