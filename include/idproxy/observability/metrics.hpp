#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

/// Cells that the data path counts in: no lock, no allocation, no name. Who shows them gives the
/// names.
namespace idproxy::metrics {

/// Grows. One thread writes, any may read: adding is two plain moves.
class Count {
 public:
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// What a Histogram holds, in plain numbers.
struct HistogramValues {
  /// Upper bounds of the buckets, in seconds; one more bucket is for what is longer.
  static constexpr std::array<double, 17> kBounds{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                                  0.005,   0.01,   0.025,   0.05,   0.1,   0.25,
                                                  0.5,     1,      2.5,     5,      10};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  ///< not cumulative
  double sum_seconds = 0;

  HistogramValues& operator+=(const HistogramValues& other);
};

/// Durations. Any thread writes, any reads; each number is exact, together they are no snapshot.
class Histogram {
 public:
  void observe(std::chrono::nanoseconds duration);
  [[nodiscard]] HistogramValues values() const;

 private:
  std::array<std::atomic<std::uint64_t>, HistogramValues::kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> nanoseconds_{0};
};

}  // namespace idproxy::metrics
