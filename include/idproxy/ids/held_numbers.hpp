#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::ids {

/// The numbers of one counter that this process holds, and how far the counter has come as this
/// process knows it. A number that was handed out is never held again, unless it is put back. Not
/// thread-safe.
class HeldNumbers {
 public:
  HeldNumbers(std::int64_t step, std::int64_t max);

  [[nodiscard]] const Steps& steps() const { return steps_; }
  /// Numbers for the next who ask.
  [[nodiscard]] std::uint64_t count() const { return free_.count(); }
  /// Numbers that ever left.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// Behind all numbers that this process was given; nothing: it was given none.
  [[nodiscard]] const std::optional<Int128>& end() const { return end_; }

  /// Moves the first `n` numbers, n <= count(), to the end of `out`.
  void take(std::uint64_t n, std::vector<Range>& out) {
    free_.take(n, out);
    taken_ += n;
  }
  /// Puts numbers that are used nowhere back to where they were. `sorted`: as they are handed out,
  /// each with count > 0. Those of before a heal, and those that this process never had, are left
  /// out. Not before the first add().
  void take_back(std::vector<Range> sorted);
  /// How many of them are not from before a heal.
  [[nodiscard]] std::uint64_t count_valid(std::span<const std::int64_t> numbers) const;

  /// A new block, which lies behind end(). Of numbers beyond max, only the end is remembered.
  void add(Range block);
  /// A new block behind a heal: no number of before is handed out, or put back, any more.
  void replace(Range block);
  /// A new block of which no number is handed out.
  void skip(Range block);
  /// Hands out nothing of what is held until restore(), replace() or drop().
  void set_aside();
  /// There is no heal after all: hands out again what set_aside() has put away, if anything.
  void restore();
  /// Nothing of what is held, or set aside, is handed out any more.
  void drop();

  /// The numbers from the last run that is held to end(), if that run was not followed by others:
  /// only these can be given back to the store. They go up to the counter's value, which lies
  /// beyond max if the store went too far.
  [[nodiscard]] std::optional<Range> unused_end() const;
  /// Takes out unused_end(), which must be something.
  void take_unused_end() { free_.drop_last(); }
  /// It was not given back.
  void put_unused_end(Range unused);
  /// It was, or may have been: end() is `first` now.
  void cut(std::int64_t first);

  /// Takes out what lies beyond a lower max, and puts in what lay beyond the one of before.
  void change_max(std::int64_t max);

 private:
  [[nodiscard]] NumberRanges& usable() { return aside_ ? *aside_ : free_; }
  [[nodiscard]] Range up_to_max(Range range) const;
  void clip(NumberRanges& numbers);
  void put_what_was_beyond_max();

  Steps steps_;
  std::int64_t max_;
  NumberRanges free_;
  std::uint64_t taken_ = 0;
  std::optional<NumberRanges> aside_;  // until a heal has come to its end
  std::optional<Int128> end_;          // behind all numbers that this process was given
  std::optional<Int128> usable_end_;   // the same, but for those beyond max
  Int128 valid_from_ = 0;              // numbers in front of it are from before a heal; with end_
  Int128 aside_valid_from_ = 0;        // valid_from_ when they were set aside
};

}  // namespace idproxy::ids
