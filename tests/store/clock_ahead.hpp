#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "database.hpp"

namespace idproxy::id_store::test {

/// The system's, which a test can set forward.
class ClockAhead final : public Clock {
 public:
  [[nodiscard]] std::chrono::nanoseconds wall() const override { return system_.wall() + ahead(); }
  [[nodiscard]] std::chrono::nanoseconds monotonic() const override {
    return system_.monotonic() + ahead();
  }
  void advance(std::chrono::nanoseconds by) { ahead_ += by.count(); }

 private:
  [[nodiscard]] std::chrono::nanoseconds ahead() const {
    return std::chrono::nanoseconds(ahead_.load());
  }

  SystemClock system_;
  std::atomic<std::int64_t> ahead_{0};
};

}  // namespace idproxy::id_store::test
