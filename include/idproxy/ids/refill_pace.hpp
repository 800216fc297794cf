#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "idproxy/ids/counter_spec.hpp"

namespace idproxy::ids {

/// Decides how large the next block is, and how early to fetch it (docs/strategies.md#block-size).
/// Times are monotonic; `used` counts the numbers that were handed out and did not return, from the
/// counter's first one on. Not thread-safe.
class RefillPace {
 public:
  /// `auto`: a block has as many numbers as were used in this time.
  static constexpr std::chrono::seconds kWindow{10};
  /// `auto`: how long after a block was taken the rest of it goes back. A block from before does
  /// not bound the size of the next one.
  static constexpr std::chrono::seconds kBlockLasts{20};

  explicit RefillPace(const CounterSpec::Block& block);

  /// Applies from the next refill on; measurements stay valid.
  void change(const CounterSpec::Block& block);

  /// At this time, so many numbers had been used. Call it before started(), and after each refill.
  void note(std::chrono::nanoseconds now, std::uint64_t used);
  /// A refill starts, of size() numbers or more.
  void started(std::chrono::nanoseconds now, std::uint64_t used);
  /// The refill brought `count` numbers; its measurements count from now on.
  void succeeded(std::chrono::nanoseconds now, std::uint64_t count);

  /// Numbers in the next block.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// Refill when fewer numbers than this are held. At most size(), so that never more than two
  /// blocks are held.
  [[nodiscard]] std::uint64_t threshold() const { return threshold_; }

 private:
  struct Mark {
    std::chrono::nanoseconds at;
    std::uint64_t used;
  };
  struct Refill {
    Mark begun{};
    std::uint64_t count = 0;  // 0: there was none
  };

  [[nodiscard]] std::uint64_t fitting(const Mark& now) const;
  [[nodiscard]] std::uint64_t computed_threshold() const;

  static constexpr std::size_t kDurations = 128;

  CounterSpec::Block block_;
  std::uint64_t size_;
  Refill last_;  // the last one that succeeded
  Mark now_{};   // the start of the one under way
  double per_second_ = 0;
  std::vector<Mark> marks_;  // in their order; two neighbours of one are a second apart, or more
  std::array<std::chrono::nanoseconds, kDurations> durations_{};  // of the last refills, a ring
  std::size_t refills_ = 0;
  std::uint64_t threshold_;  // computed from the other members, so declared last
};

}  // namespace idproxy::ids
