#pragma once

#include <atomic>
#include <chrono>

#include "idproxy/base/clock.hpp"

namespace idproxy::test {

/// A clock that stands still until a test moves it. Thread-safe.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::chrono::nanoseconds wall = kStart) : wall_(wall.count()) {}

  [[nodiscard]] std::chrono::nanoseconds wall() const override {
    return std::chrono::nanoseconds(wall_.load());
  }
  /// Moves with advance(), not with set().
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override {
    return std::chrono::nanoseconds(monotonic_.load());
  }
  void set(std::chrono::nanoseconds wall) { wall_ = wall.count(); }
  /// Moves both clocks; if `step` is negative, only the wall clock.
  void advance(std::chrono::nanoseconds step) {
    wall_ += step.count();
    if (step.count() > 0) monotonic_ += step.count();
  }

  /// 2022-02-22T19:22:22Z, the time of the vectors in RFC 9562 appendix A.
  static constexpr std::chrono::seconds kStart{1645557742};

 private:
  std::atomic<std::int64_t> wall_;
  std::atomic<std::int64_t> monotonic_{1};
};

}  // namespace idproxy::test
