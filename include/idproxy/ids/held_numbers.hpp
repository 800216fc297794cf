#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "idproxy/ids/grant.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::ids {

/// The numbers of one counter that this process holds, and how far the counter has come as far as
/// this process knows. Hands out each number once, unless it is put back. Not thread-safe.
class HeldNumbers {
 public:
  HeldNumbers(std::int64_t step, std::int64_t max);

  [[nodiscard]] const Steps& steps() const { return steps_; }
  /// Numbers that take() can hand out.
  [[nodiscard]] std::uint64_t count() const { return free_.count(); }
  /// Numbers handed out so far.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// Those of them that were not put back.
  [[nodiscard]] std::uint64_t used() const { return taken_ - put_back_; }
  /// The number after the last that this process got from the store and did not give back; nothing
  /// if there is none.
  [[nodiscard]] const std::optional<Int128>& end() const { return end_; }

  /// The number that is handed out next if no other process gets numbers meanwhile; nothing if this
  /// process got none from the store, or there are none up to max.
  [[nodiscard]] std::optional<std::int64_t> next() const;
  /// How many numbers there are from next() to max; nothing if this process got none.
  [[nodiscard]] std::optional<std::uint64_t> left() const;

  /// Moves the first `n` numbers, n <= count(), to the end of `out`.
  void take(std::uint64_t n, std::vector<Range>& out) {
    free_.take(n, out);
    taken_ += n;
  }
  /// Puts unused numbers back to their places. `sorted`: in the order of handing out, each with
  /// count > 0. Ignores numbers from before a heal, and numbers that this process never had. Must
  /// not be called before the first add().
  void take_back(std::vector<Range> sorted);
  /// How many of `numbers` are not from before a heal.
  [[nodiscard]] std::uint64_t count_valid(std::span<const std::int64_t> numbers) const;

  /// Adds a new block, which lies behind end(). Of numbers beyond max it only remembers the end.
  /// After set_aside(), its numbers are set aside, too.
  void add(Range block);
  /// Adds a new block after a heal. Earlier numbers that are held or put back are no longer handed
  /// out.
  void replace(Range block);
  /// Hands out none of the held numbers until restore(), replace() or drop(); the same holds for
  /// those that are added or put back meanwhile.
  void set_aside();
  /// There is no heal after all: hands out again what set_aside() has put away, if anything.
  void restore();
  /// The same, except for numbers that are stored already. `taken`: in the order of handing out.
  void restore_without(const std::vector<Range>& taken);
  /// The numbers that set_aside() has put away.
  [[nodiscard]] std::vector<Range> aside() const;
  /// Drops all numbers that are held or set aside.
  void drop();

  /// The last held range, extended to end(), if none of the numbers after it are in use: only these
  /// numbers can be given back to the store. They reach up to the counter's value, which lies
  /// beyond max if the store went too far.
  [[nodiscard]] std::optional<Range> unused_end() const;
  /// Removes unused_end(), which must not be nothing, and returns the other held numbers, which it
  /// drops.
  [[nodiscard]] std::vector<Range> take_unused_end();
  /// Puts back what take_unused_end() removed: the store was not asked.
  void put_unused_end(Range unused);
  /// The unused end was given back, or may have been: it begins with `first`.
  void cut(std::int64_t first);

  /// The part of a range that is not beyond max.
  [[nodiscard]] Range up_to_max(Range range) const;
  /// Drops all held numbers, or all but the last range. Nothing else changes: numbers that are in
  /// use can still be put back. Returns what it dropped.
  [[nodiscard]] std::vector<Range> lose_all();
  [[nodiscard]] std::vector<Range> lose_older();

  /// Removes numbers beyond a lower max, and adds those that only the old max excluded.
  void change_max(std::int64_t max);

 private:
  [[nodiscard]] NumberRanges& usable() { return aside_ ? *aside_ : free_; }
  [[nodiscard]] bool is_valid(const Range& range) const;
  void note_end(Range block);
  void clip(NumberRanges& numbers);
  void put_what_was_beyond_max();

  Steps steps_;
  std::int64_t max_;
  NumberRanges free_;
  std::uint64_t taken_ = 0;
  std::uint64_t put_back_ = 0;
  std::optional<NumberRanges> aside_;  // until the heal ends
  std::optional<Int128> end_;          // the number after the last that the store gave
  std::optional<Int128> usable_end_;   // the same, without numbers beyond max
  std::optional<Int128> run_first_;    // the first of the numbers in a row that end with end_
  std::optional<Int128> before_run_;   // end_ before that one
  Int128 valid_from_ = 0;              // numbers before it are from before a heal; set with end_
  Int128 aside_valid_from_ = 0;        // valid_from_ at set_aside()
};

}  // namespace idproxy::ids
