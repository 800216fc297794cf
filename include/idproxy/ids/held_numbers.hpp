#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::ids {

/// The numbers of a counter that a process holds, and how far the counter had come when the store
/// gave them. Only data: no lock, no clock, no store. Not thread-safe.
class HeldNumbers {
 public:
  HeldNumbers(std::int64_t step, std::int64_t max) : steps_(step), max_(max) {}

  [[nodiscard]] const Steps& steps() const { return steps_; }
  /// Numbers that can be taken.
  [[nodiscard]] std::uint64_t count() const { return free_.count(); }
  /// Takes the first `n`, n <= count().
  void take(std::uint64_t n, std::vector<Range>& out) {
    free_.take(n, out);
    taken_ += n;
  }
  /// Puts unused numbers, given in the order of handing out, back to their places. Ignores those
  /// from before a heal, and those that this process never had.
  void put_back(std::vector<Range> sorted);
  /// How many were ever taken.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  /// Of them, those that did not return.
  [[nodiscard]] std::uint64_t used() const { return taken_ - put_back_; }
  [[nodiscard]] std::optional<std::int64_t> next() const { return free_.next(); }

  // ---- the counter

  /// The number after the last that the store gave; nothing: it gave none.
  [[nodiscard]] const std::optional<Int128>& end() const { return end_; }
  /// How many there are from end() to max.
  [[nodiscard]] std::uint64_t beyond() const { return end_ ? steps_.count(*end_, max_) : 0; }
  /// Adds a new block, which lies behind end(). Of numbers beyond max it only remembers the end.
  void add(Range block);
  /// Of what the old max excluded, those up to the new one can be taken, too.
  void change_max(std::int64_t max);

  // ---- a heal

  /// True if the number is not from before the last heal.
  [[nodiscard]] bool is_valid(std::int64_t number) const {
    return !steps_.before(number, valid_from_);
  }
  /// Hands out none of the held numbers until begin_at(), restore() or drop(); the same holds for
  /// those that are added or put back meanwhile.
  void set_aside();
  /// Those that are set aside.
  [[nodiscard]] std::vector<Range> aside() const {
    return aside_ ? aside_->all() : std::vector<Range>();
  }
  /// There is no heal after all: hands out again what is set aside, if anything, but for `taken`.
  void restore(const std::vector<Range>& taken = {});
  /// Drops all numbers that are held or set aside.
  void drop();
  /// The counter is healed: earlier numbers are no longer handed out. Call add() then.
  void begin_at(std::int64_t first);

  // ---- giving back

  /// The last held range, extended to end(), if none of the numbers after it are in use: only these
  /// can be given back to the store. They reach up to the counter's value, which lies beyond max if
  /// the store went too far.
  [[nodiscard]] std::optional<Range> unused_end() const;
  /// Takes it out, to be given back; all others are lost.
  [[nodiscard]] std::optional<Range> take_unused_end();
  /// It was not given back: up to max it is held again.
  void keep(Range unused);
  /// It was not given back, since the counter has moved on: it is lost.
  void lose(Range unused);
  /// It was given back, or may have been. From now on, a block that begins with `first` does not
  /// mean that the counter went back. If all numbers in a row were given back, the numbers before
  /// them may belong to another process, which can give them back, too.
  void cut(std::int64_t first);
  /// Drops all held numbers. Nothing else changes: those that are in use can still be put back.
  void lose_all();
  /// The same, except for the last range.
  void lose_older();
  /// Those that were lost since the last call.
  [[nodiscard]] std::vector<Range> take_lost() { return std::exchange(lost_, {}); }

  /// False if what it knows contradicts itself, which never happens.
  [[nodiscard]] bool check() const;

 private:
  [[nodiscard]] NumberRanges& usable() { return aside_ ? *aside_ : free_; }
  void put_last(Range range);
  void clip(NumberRanges& numbers);

  Steps steps_;
  std::int64_t max_;
  NumberRanges free_{steps_};
  std::uint64_t taken_ = 0;
  std::uint64_t put_back_ = 0;         // of them
  std::optional<NumberRanges> aside_;  // until the heal ends: those that are given to nobody
  std::optional<Int128> end_;
  std::optional<Int128> usable_end_;  // numbers from here to end_ are beyond max, but held
  std::optional<Int128> run_first_;   // the first of the numbers in a row that end with end_
  std::optional<Int128> before_run_;  // end_ before that one
  Int128 valid_from_ = 0;             // numbers before it are from before a heal; set with end_
  Int128 aside_valid_from_ = 0;       // valid_from_ at set_aside()
  std::vector<Range> lost_;           // until take_lost()
};

}  // namespace idproxy::ids
