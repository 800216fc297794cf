#pragma once

#include <chrono>

namespace idproxy {

/// A clock as an argument, so that tests can run a strategy at any time.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Wall clock: time since the Unix epoch. May jump, also backwards. Thread-safe.
  [[nodiscard]] virtual std::chrono::nanoseconds wall() const = 0;
  /// Time since some moment in the past; never goes back. Thread-safe.
  [[nodiscard]] virtual std::chrono::nanoseconds monotonic() const = 0;
};

}  // namespace idproxy
