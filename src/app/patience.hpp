#pragma once

#include <chrono>
#include <string>

#include "app/progress_display.hpp"
#include "app/stop_signals.hpp"

namespace idproxy::app {

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

}  // namespace idproxy::app
