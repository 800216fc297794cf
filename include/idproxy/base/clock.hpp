#pragma once

#include <chrono>

namespace idproxy {

/// Time as an argument, so that every strategy can be tested at every moment.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Wall clock, since the Unix epoch. May jump, also backwards. Thread-safe.
  [[nodiscard]] virtual std::chrono::nanoseconds wall() const = 0;
  /// Since some moment in the past; never goes back. Thread-safe.
  [[nodiscard]] virtual std::chrono::nanoseconds monotonic() const = 0;
};

}  // namespace idproxy
