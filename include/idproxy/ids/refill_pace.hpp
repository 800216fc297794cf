#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::ids {

/// How large the next block is, and how early it is fetched (docs/strategies.md#block-size). Not
/// thread-safe.
class RefillPace {
 public:
  explicit RefillPace(const CounterSpec::Block& block);

  /// From the next refill on; what has been measured counts on.
  void change(const CounterSpec::Block& block);

  /// A refill starts. `taken`: numbers handed out since the counter's beginning.
  void started(std::chrono::nanoseconds now, std::uint64_t taken);
  /// It went well; what came of it serves from now on.
  void succeeded(std::chrono::nanoseconds now);

  /// Of the next block.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Fewer numbers than this are a reason to refill; at most size(), so that never more than two
  /// blocks are held.
  [[nodiscard]] std::uint64_t threshold() const { return threshold_; }

 private:
  /// How things stood when a refill started.
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
  std::optional<Mark> last_;  // the last refill that went well
  Mark now_{};
  double per_second_ = 0;
  std::array<std::chrono::nanoseconds, kDurations> durations_{};  // the last ones
  std::size_t refills_ = 0;
  std::uint64_t threshold_;  // made of the others: stays behind them
};

}  // namespace idproxy::ids
