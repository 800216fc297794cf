#include "idproxy/ids/refill_pace.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace idproxy::ids {
namespace {

using namespace std::chrono_literals;

double seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Numbers that return are used no more, so a later count may be lower.
double difference(std::uint64_t later, std::uint64_t earlier) {
  return later > earlier ? static_cast<double>(later - earlier) : 0;
}

/// Between two marks, the use counts as even.
template <class Mark>
double used_lately(const std::vector<Mark>& marks, const Mark& now) {
  const auto since = now.at - RefillPace::kWindow;
  if (marks.empty()) return static_cast<double>(now.used);
  Mark before = marks.front();
  if (before.at >= since) return difference(now.used, before.used);
  Mark after = now;
  for (const Mark& mark : marks) {
    if (mark.at > since) {
      after = mark;
      break;
    }
    before = mark;
  }
  const double part = seconds(since - before.at) / seconds(after.at - before.at);
  const double used_then =
      static_cast<double>(before.used) + part * difference(after.used, before.used);
  return std::max(0.0, static_cast<double>(now.used) - used_then);
}

template <std::size_t kMost>
std::chrono::nanoseconds p99(std::array<std::chrono::nanoseconds, kMost> durations,
                             std::size_t refills) {
  const std::size_t count = std::min(refills, kMost);
  if (count == 0) return {};
  const std::size_t at = (count * 99 + 99) / 100 - 1;  // nearest rank
  std::nth_element(durations.begin(), durations.begin() + static_cast<std::ptrdiff_t>(at),
                   durations.begin() + static_cast<std::ptrdiff_t>(count));
  return durations.at(at);
}

}  // namespace

RefillPace::RefillPace(const CounterSpec::Block& block)
    : block_(block), size_(block.size.value_or(1)), threshold_(computed_threshold()) {}

void RefillPace::change(const CounterSpec::Block& block) {
  block_ = block;
  size_ = block.size.value_or(std::min<std::uint64_t>(size_, CounterSpec::Block::kMost));
  threshold_ = computed_threshold();
}

/// Of marks that follow each other closely, the last one moves with the time: at most three marks
/// lie within a second.
void RefillPace::note(std::chrono::nanoseconds now, std::uint64_t used) {
  const std::size_t count = marks_.size();
  if (count >= 2 && now - marks_[count - 2].at < 1s) {
    marks_.back() = {now, used};
  } else {
    marks_.push_back({now, used});
  }
  // One mark from before the time that counts is enough.
  const auto recent = std::find_if(marks_.begin(), marks_.end(),
                                   [now](const Mark& mark) { return mark.at > now - kWindow; });
  if (std::distance(marks_.begin(), recent) > 1) marks_.erase(marks_.begin(), std::prev(recent));
}

/// `auto`: what was used lately, between half and twice the last block.
std::uint64_t RefillPace::fitting(const Mark& now) const {
  const auto used = static_cast<std::uint64_t>(std::llround(used_lately(marks_, now)));
  const std::uint64_t last = std::min<std::uint64_t>(last_.count, CounterSpec::Block::kMost);
  const bool is_over = now.at - last_.begun.at >= kBlockLasts;
  const std::uint64_t least = last == 0 || is_over ? 1 : (last + 1) / 2;
  const std::uint64_t most = std::clamp<std::uint64_t>(2 * last, 1, CounterSpec::Block::kMost);
  return std::clamp(used, least, most);
}

void RefillPace::started(std::chrono::nanoseconds now, std::uint64_t used) {
  now_ = {now, used};
  // Measures from the last successful refill: an outage must not look like many small blocks. Two
  // refills at the same time say nothing about the rate.
  if (last_.count > 0 && now > last_.begun.at) {
    per_second_ = difference(used, last_.begun.used) / seconds(now - last_.begun.at);
  }
  if (!block_.size) size_ = fitting(now_);
  threshold_ = computed_threshold();
}

void RefillPace::succeeded(std::chrono::nanoseconds now, std::uint64_t count) {
  durations_[refills_ % kDurations] = now - now_.at;
  ++refills_;
  last_ = {now_, count};
  threshold_ = computed_threshold();
}

std::uint64_t RefillPace::computed_threshold() const {
  if (size_ <= 1) return 0;  // one number at a time: nothing is fetched ahead
  const auto size = static_cast<double>(size_);
  const double lasting = 2 * seconds(p99(durations_, refills_)) * per_second_;
  const double ahead = block_.size ? std::max(block_.prefetch * size, lasting) : lasting;
  return static_cast<std::uint64_t>(std::ceil(std::min(ahead, size)));
}

}  // namespace idproxy::ids
