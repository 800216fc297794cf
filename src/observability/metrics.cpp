#include "idproxy/observability/metrics.hpp"

#include <algorithm>
#include <cstddef>

namespace idproxy::metrics {

HistogramValues& HistogramValues::operator+=(const HistogramValues& other) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  sum_seconds += other.sum_seconds;
  return *this;
}

void Histogram::observe(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto& bounds = HistogramValues::kBounds;
  const auto bucket =
      static_cast<std::size_t>(std::ranges::lower_bound(bounds, seconds) - bounds.begin());
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  nanoseconds_.fetch_add(static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0)),
                         std::memory_order_relaxed);
}

HistogramValues Histogram::values() const {
  HistogramValues values;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    values.counts[i] = counts_[i].load(std::memory_order_relaxed);
  }
  values.sum_seconds = static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) / 1e9;
  return values;
}

}  // namespace idproxy::metrics
