#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "idproxy/base/random.hpp"

namespace idproxy::net {

/// Decides when to try an unreachable server again, with one attempt at a time: after 50 ms, then
/// twice as long each time, up to 2 s. Half of each pause is random, so that many proxies do not
/// retry at once. Thread-safe; racing threads may see each other's results a moment late.
class Backoff {
 public:
  static constexpr std::chrono::nanoseconds kFirst = std::chrono::milliseconds(50);
  static constexpr std::chrono::nanoseconds kLongest = std::chrono::seconds(2);

  /// How many attempts in a row have failed. With 0, any number may try at once, without claim().
  [[nodiscard]] std::uint32_t failures() const { return failures_.load(); }
  /// How long to wait before the next attempt. `now` is monotonic time, here and below.
  [[nodiscard]] std::chrono::nanoseconds wait(std::chrono::nanoseconds now) const {
    return std::max(std::chrono::nanoseconds(until_.load()) - now, std::chrono::nanoseconds(0));
  }
  /// True for one caller, who may try now and must then call failed(), succeeded() or release().
  [[nodiscard]] bool claim(std::chrono::nanoseconds now) {
    return wait(now).count() == 0 && !claimed_.exchange(true);
  }
  /// The caller of claim() did not try.
  void release() { claimed_ = false; }

  /// An attempt has failed. Attempts that fail during a pause do not count.
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
