#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "idproxy/base/random.hpp"

namespace idproxy::net {

/// When a server that could not be reached is tried again, by one at a time: after 50 ms, then
/// twice as long each time, up to 2 s, of which half is random so that many proxies do not come at
/// once. Thread-safe; racing threads may see each other's news a moment late.
class Backoff {
 public:
  static constexpr std::chrono::nanoseconds kFirst = std::chrono::milliseconds(50);
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(2);

  /// How often it failed in a row. 0: whoever wants to may try.
  [[nodiscard]] std::uint32_t failures() const { return failures_.load(); }
  /// How long to wait before the next try. `now` is monotonic, as elsewhere here.
  [[nodiscard]] std::chrono::nanoseconds wait(std::chrono::nanoseconds now) const {
    return std::max(std::chrono::nanoseconds(until_.load()) - now, std::chrono::nanoseconds(0));
  }
  /// True for one caller: the try is his. Then failed(), succeeded() or release() must follow.
  [[nodiscard]] bool claim(std::chrono::nanoseconds now) {
    return wait(now).count() == 0 && !claimed_.exchange(true);
  }
  /// The try was not made.
  void release() { claimed_ = false; }

  /// A try has failed. Of those that fail at the same time one counts.
  void failed(std::chrono::nanoseconds now, RandomSource& random) {
    claimed_ = false;
    std::int64_t until = until_.load();
    if (until > now.count()) return;
    const auto longest = std::min(kFirst * (1 << std::min(failures_.load(), 6U)), kLongest);
    const auto half = static_cast<std::uint64_t>(longest.count() / 2);
    const auto delay = static_cast<std::int64_t>(half + uniform(random, half));
    if (until_.compare_exchange_strong(until, now.count() + delay)) ++failures_;
  }
  void succeeded() {
    claimed_ = false;
    failures_ = 0;
    until_ = 0;
  }

 private:
  std::atomic<std::int64_t> until_{0};  // nanoseconds
  std::atomic<std::uint32_t> failures_{0};
  std::atomic<bool> claimed_{false};
};

}  // namespace idproxy::net
