#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "idproxy/ids/grant.hpp"

namespace idproxy::ids {

/// Wide enough for every sum of numbers and steps.
__extension__ using Int128 = __int128;

/// The step of a counter: direction and distance of its numbers. No calculation wraps at the ends
/// of int64.
class Steps {
 public:
  explicit Steps(std::int64_t step) : step_(step) {}

  [[nodiscard]] std::int64_t step() const { return step_; }
  /// True if `a` is handed out before `b`.
  [[nodiscard]] bool before(Int128 a, Int128 b) const { return step_ > 0 ? a < b : a > b; }
  /// The number after the last one of a range; may lie outside of int64.
  [[nodiscard]] Int128 end(const Range& range) const {
    return range.first + static_cast<Int128>(step_) * static_cast<Int128>(range.count);
  }
  /// How many numbers there are from `first` to `last`, inclusive; 0 if `last` lies before `first`.
  [[nodiscard]] std::uint64_t count(Int128 first, std::int64_t last) const;

 private:
  std::int64_t step_;
};

/// A set of numbers of one counter, as ranges in the order of handing out; adjacent ranges are
/// merged. Not thread-safe.
class NumberRanges {
 public:
  explicit NumberRanges(Steps steps) : steps_(steps) {}

  [[nodiscard]] std::uint64_t count() const { return count_; }

  /// Moves the first `n` numbers, n <= count(), to the end of `out`. Takes time linear in the
  /// ranges involved, mostly one.
  void take(std::uint64_t n, std::vector<Range>& out);
  /// Adds ranges, given in the order of handing out, each with count > 0. A number that is already
  /// here stays here once. Takes time linear in `sorted` and in the held ranges before its last
  /// one.
  void put(const std::vector<Range>& sorted);
  /// Removes the numbers of these ranges, given in the order of handing out.
  void remove(const std::vector<Range>& sorted);
  /// All ranges, in their order.
  [[nodiscard]] std::vector<Range> all() const { return {reversed_.rbegin(), reversed_.rend()}; }
  /// The number that is handed out next.
  [[nodiscard]] std::optional<std::int64_t> next() const;
  /// The range that is handed out last.
  [[nodiscard]] std::optional<Range> last() const;
  void drop_last();
  void clear();

 private:
  void push(Range range);

  Steps steps_;
  std::vector<Range> reversed_;  // the range to hand out first is the last element
  std::uint64_t count_ = 0;
};

}  // namespace idproxy::ids
