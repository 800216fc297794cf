#include "idproxy/metrics/metrics.hpp"

#include <algorithm>
#include <cstddef>

namespace idproxy::metrics {

HistogramValues& HistogramValues::operator+=(const HistogramValues& other) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  sum_seconds += other.sum_seconds;
  return *this;
}

template <class Counter>
void HistogramOf<Counter>::observe(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto& bounds = HistogramValues::kBounds;
  // From the front: what is observed for each message is short.
  const auto bucket = static_cast<std::size_t>(
      std::ranges::find_if(bounds, [&](double bound) { return seconds <= bound; }) -
      bounds.begin());
  counts_[bucket].add();
  nanoseconds_.add(static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0)));
}

template <class Counter>
HistogramValues HistogramOf<Counter>::values() const {
  HistogramValues values;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    values.counts[i] = counts_[i].value();
  }
  values.sum_seconds = static_cast<double>(nanoseconds_.value()) / 1e9;
  return values;
}

template class HistogramOf<SharedCount>;
template class HistogramOf<Count>;

}  // namespace idproxy::metrics
