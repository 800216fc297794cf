#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

/// Counters for the data path, without locks, allocations or names. The page that shows them names
/// them.
namespace idproxy::metrics {

/// A monotonic counter. A single thread writes, any may read, so that add() needs no atomic
/// read-modify-write.
class Count {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The values of a Histogram.
struct HistogramValues {
  /// Upper bounds of the buckets, in seconds; one more bucket counts longer durations.
  static constexpr std::array<double, 17> kBounds{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                                  0.005,   0.01,   0.025,   0.05,   0.1,   0.25,
                                                  0.5,     1,      2.5,     5,      10};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  ///< not cumulative
  double sum_seconds = 0;

  HistogramValues& operator+=(const HistogramValues& other);
};

/// A histogram of durations. Thread-safe; each number is exact, together they are not a snapshot.
class Histogram {
 public:
  void observe(std::chrono::nanoseconds duration);
  [[nodiscard]] HistogramValues values() const;

 private:
  std::array<std::atomic<std::uint64_t>, HistogramValues::kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> nanoseconds_{0};
};

}  // namespace idproxy::metrics
