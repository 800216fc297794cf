#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::ids {

/// Decides how large the next block is, and how early to fetch it (docs/strategies.md#block-size).
/// Not thread-safe.
class RefillPace {
 public:
  explicit RefillPace(const CounterSpec::Block& block);

  /// Applies from the next refill on; measurements stay valid.
  void change(const CounterSpec::Block& block);

  /// A refill starts. `taken`: numbers that the counter has handed out in all.
  void started(std::chrono::nanoseconds now, std::uint64_t taken);
  /// The refill succeeded; its measurements count from now on.
  void succeeded(std::chrono::nanoseconds now);

  /// Numbers in the next block.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Refill when fewer numbers than this are held. At most size(), so that never more than two
  /// blocks are held.
  [[nodiscard]] std::uint64_t threshold() const { return threshold_; }

 private:
  /// The state at the start of a refill.
  struct Mark {
    std::chrono::nanoseconds at;
    std::uint64_t taken;
    std::uint64_t size;
  };

  [[nodiscard]] std::chrono::nanoseconds p99() const;
  [[nodiscard]] std::uint64_t computed_threshold() const;
  [[nodiscard]] std::uint64_t adapted(std::uint64_t last) const;

  static constexpr std::size_t kDurations = 128;

  CounterSpec::Block block_;
  std::uint64_t size_;
  std::optional<Mark> last_;  // the last successful refill
  Mark now_{};
  double per_second_ = 0;
  std::array<std::chrono::nanoseconds, kDurations> durations_{};  // of the last refills, a ring
  std::size_t refills_ = 0;
  std::uint64_t threshold_;  // computed from the other members, so declared last
};

}  // namespace idproxy::ids
