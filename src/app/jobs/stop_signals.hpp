#pragma once

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>

#include "app/jobs/progress.hpp"

/// When a long command ends although it is not done.
namespace idproxy::app::jobs {

/// SIGINT and SIGTERM.
[[nodiscard]] sigset_t stop_signal_set();

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
