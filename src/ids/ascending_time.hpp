#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "idproxy/ids/source.hpp"

namespace idproxy::ids {

inline std::uint64_t milliseconds_of(const Clock& clock) {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(clock.wall()).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(now, 0));
}

/// Of ids that each exceed the one before: milliseconds, and random bits that grow within one. Not
/// thread-safe.
class AscendingTime {
 public:
  /// The millisecond in which ids begin anew, with random bits of their own. Nothing: the next id
  /// follows the last one, which is of the millisecond `last`.
  [[nodiscard]] std::optional<std::uint64_t> begins_anew(std::uint64_t last,
                                                         const Sources& sources) {
    const std::uint64_t now = milliseconds_of(sources.clock);
    const std::uint64_t generation = sources.random.generation();
    // A child of fork() has the parent's bits: only the steps between ids would tell theirs apart.
    const bool seeded = generation_ == generation;
    if (seeded && now <= last && last - now <= kLongestStepBack) return std::nullopt;
    generation_ = generation;
    return now;
  }

 private:
  /// The longest step back of the clock, in milliseconds, that ids do not follow. After a longer
  /// one the old time was wrong: ids that kept it would be out of order with those of all other
  /// processes. Following the clock breaks the order once, but ids stay unique, because their
  /// random bits are drawn anew.
  static constexpr std::uint64_t kLongestStepBack = 10'000;

  std::optional<std::uint64_t> generation_;  // nothing: no id yet
};

}  // namespace idproxy::ids
