#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

/// How far a long command has come, for people; and when it ends although it is not done.
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

/// Catches SIGINT and SIGTERM for a command that ends in its own time. The second signal ends the
/// process at once, with ExitCode::left. Construct it before the process has other threads: they
/// inherit the blocked signals. Thread-safe.
class StopSignals {
 public:
  /// Why a command ended, for people.
  static constexpr const char* kReason = "stopped by a signal";

  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// True from the first signal on.
  [[nodiscard]] bool told() const;
  /// Waits, at most until the first signal. Returns told().
  bool wait_for(std::chrono::nanoseconds time) const;

 private:
  void watch();

  mutable std::mutex mutex_;  // guards the next three
  mutable std::condition_variable changed_;
  bool told_ = false;
  bool ended_ = false;
  std::thread thread_;
};

/// Decides how long a command goes on to ask servers that do not answer. One thread.
class Patience {
 public:
  /// How long servers may do nothing, and how long after the command was told to stop.
  static constexpr std::chrono::minutes kUsual{2};
  static constexpr std::chrono::seconds kAtStop{10};

  /// Borrows its arguments.
  Patience(const StopSignals& stop, ProgressDisplay& display);

  /// A server did what it was asked, or is still at it.
  void succeeded();
  /// Rests before another attempt, and shows why. False: give up.
  [[nodiscard]] bool rest(const std::string& reason);

 private:
  const StopSignals& stop_;
  ProgressDisplay& display_;
  std::chrono::steady_clock::time_point succeeded_;
};

}  // namespace idproxy::app::jobs
