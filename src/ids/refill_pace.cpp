#include "idproxy/ids/refill_pace.hpp"

#include <algorithm>
#include <cmath>

namespace idproxy::ids {
namespace {

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

RefillPace::RefillPace(const CounterSpec::Block& block)
    : block_(block), size_(block.size), threshold_(computed_threshold()) {}

void RefillPace::change(const CounterSpec::Block& block) {
  block_ = block;
  size_ = block.size;
  threshold_ = computed_threshold();
}

void RefillPace::started(std::chrono::nanoseconds now, std::uint64_t taken) {
  // Measures from the last successful refill: an outage must not look like many small blocks. Two
  // refills at the same time say nothing about the rate.
  if (last_ && now > last_->at) {
    per_second_ = static_cast<double>(taken - last_->taken) / seconds(now - last_->at);
    if (block_.adaptive) size_ = adapted(last_->size);
  }
  now_ = {now, taken, size_};
  threshold_ = computed_threshold();
}

void RefillPace::succeeded(std::chrono::nanoseconds now) {
  durations_[refills_ % kDurations] = now - now_.at;
  ++refills_;
  last_ = now_;
  threshold_ = computed_threshold();
}

/// The size that lasts for `target` at the measured rate; between half and twice the last size.
std::uint64_t RefillPace::adapted(std::uint64_t last) const {
  const auto size = static_cast<double>(last);
  const double wanted = std::clamp(per_second_ * seconds(block_.target), size / 2, size * 2);
  return static_cast<std::uint64_t>(std::clamp(std::round(wanted), static_cast<double>(block_.min),
                                               static_cast<double>(block_.max)));
}

std::chrono::nanoseconds RefillPace::p99() const {
  const std::size_t count = std::min(refills_, kDurations);
  if (count == 0) return {};
  auto sorted = durations_;
  const std::size_t at = (count * 99 + 99) / 100 - 1;  // nearest rank
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at),
                   sorted.begin() + static_cast<std::ptrdiff_t>(count));
  return sorted.at(at);
}

std::uint64_t RefillPace::computed_threshold() const {
  if (size_ <= 1) return 0;  // one number at a time: nothing is fetched ahead
  const auto size = static_cast<double>(size_);
  const double ahead = std::max(block_.prefetch * size, 2 * seconds(p99()) * per_second_);
  return static_cast<std::uint64_t>(std::ceil(std::min(ahead, size)));
}

}  // namespace idproxy::ids
