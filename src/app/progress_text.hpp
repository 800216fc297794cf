#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

/// How far a long command has come, for people.
namespace idproxy::app {

struct Progress {
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  double per_second = 0;  ///< lately; 0: not known
};

/// "1,234,567"
[[nodiscard]] std::string with_commas(std::uint64_t number);
/// "0.8 s", "12 s", "3 min 5 s", "2 h 10 min"
[[nodiscard]] std::string seconds_text(std::chrono::nanoseconds time);

/// "430,000 of 1,000,000 documents (43 %), 8,120 a second, 1 min 10 s left"
[[nodiscard]] std::string progress_line(const Progress& progress);
/// "[=========>          ]  43 %  430,000 of 1,000,000  8,120/s  1 min 10 s left", not wider than
/// `columns`: without the bar if there is no room for it.
[[nodiscard]] std::string progress_bar(const Progress& progress, std::size_t columns);

/// How many documents per second were done in the last half minute.
class RecentRate {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic

  /// `done`: since the start. Returns documents per second; 0: not known yet.
  double add(Time now, std::uint64_t done);

 private:
  struct Mark {
    Time at;
    std::uint64_t done;
  };
  std::deque<Mark> marks_;  // in their order, a second apart or more; the last is the newest
};

/// When to print the next line where there is no terminal: after 10 s, each 10 s of the first
/// minute, then once a minute.
class SparseLines {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic

  explicit SparseLines(Time begun) : begun_(begun), next_(begun + std::chrono::seconds(10)) {}
  /// True at most once per line.
  [[nodiscard]] bool is_due(Time now);

 private:
  Time begun_;
  Time next_;
};

/// Spreads work evenly over time.
class Pace {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic

  /// `rate`: per second; 0: no limit.
  explicit Pace(std::uint32_t rate) : rate_(rate) {}
  /// How long to wait before the next `n`. Time that was not used does not add up.
  [[nodiscard]] Time until_next(Time now, std::uint64_t n);

 private:
  std::uint32_t rate_;
  Time next_{};
};

}  // namespace idproxy::app
