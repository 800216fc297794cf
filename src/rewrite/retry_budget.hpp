#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::rewrite {

/// How often, after which pause and until when the statements of one command may be sent again: the
/// bounds of the rules whose values were taken, counted from the first duplicate, and the client's
/// maxTimeMS. All times are monotonic.
class RetryBudget {
 public:
  /// `max_time_ms`: counted from `started`; nothing: no limit.
  RetryBudget(std::optional<std::int64_t> max_time_ms, std::chrono::nanoseconds started)
      : max_time_ms_(max_time_ms), started_(started) {}

  /// Of maxTimeMS, in milliseconds; nothing if the client has set no limit.
  [[nodiscard]] std::optional<std::int64_t> time_left(std::chrono::nanoseconds now) const;

  /// Duplicates have come: the rules' deadlines run, unless they do already.
  void start(std::chrono::nanoseconds now);
  /// They have ended; for the server, the next command is a batch of its own.
  void end() { first_duplicate_.reset(); }
  /// True if a statement that has been repeated `repeats` times may go again now that these values
  /// are taken. Then the pause is at least their backoff. After start().
  [[nodiscard]] bool allows(std::span<const Assignment* const> taken, std::uint32_t repeats,
                            std::chrono::nanoseconds now);
  /// Before what may go again does: the longest backoff since the last call, less up to half of it,
  /// so that those who collided together do not meet again.
  [[nodiscard]] std::chrono::nanoseconds take_pause(RandomSource& random);
  /// How long the store may take for a fresh value: with all that has been waited for since
  /// start(), not beyond the rule's deadline.
  [[nodiscard]] std::chrono::nanoseconds patience(const Assignment& assignment,
                                                  std::chrono::nanoseconds now) const;

 private:
  std::optional<std::int64_t> max_time_ms_;
  std::chrono::nanoseconds started_;
  std::optional<std::chrono::nanoseconds> first_duplicate_;
  std::chrono::nanoseconds pause_{};
};

}  // namespace idproxy::rewrite
