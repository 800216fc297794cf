#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

/// How far a long command has come, for people, and how fast it goes on.
namespace idproxy::app::jobs {

struct Progress {
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  double per_second = 0;  ///< lately; 0: not known
};

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

/// Shows the progress of a long command on standard error: a bar on a terminal, else a line now
/// and then. One thread.
class ProgressDisplay {
 public:
  /// `total`: documents.
  explicit ProgressDisplay(std::uint64_t total);
  /// As finish().
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(std::uint64_t done);
  /// The command waits, for this reason, until the next show().
  void waits(const std::string& reason);
  /// Shows the last state; nothing is shown afterwards.
  void finish();

 private:
  void draw(const std::string& line) const;

  const std::size_t columns_;  // of the terminal; 0: there is none
  Progress progress_;
  RecentRate rate_;
  SparseLines lines_;
  std::chrono::nanoseconds drawn_{};  // when, in monotonic time
  std::string waits_for_;
  bool finished_ = false;
};

}  // namespace idproxy::app::jobs
