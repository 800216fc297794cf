#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "app/progress_text.hpp"

namespace idproxy::app {

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

}  // namespace idproxy::app
