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

/// A monotonic counter. Thread-safe.
class SharedCount {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
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

/// A histogram of durations. Thread-safe as its Counter is; each number is exact, together they are
/// not a snapshot.
template <class Counter>
class HistogramOf {
 public:
  void observe(std::chrono::nanoseconds duration);
  [[nodiscard]] HistogramValues values() const;

 private:
  std::array<Counter, HistogramValues::kBounds.size() + 1> counts_{};
  Counter nanoseconds_;
};
using Histogram = HistogramOf<SharedCount>;
/// A single thread observes.
using OwnHistogram = HistogramOf<Count>;

}  // namespace idproxy::metrics
