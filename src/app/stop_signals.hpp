#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace idproxy::app {

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

}  // namespace idproxy::app
