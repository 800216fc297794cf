#pragma once

#include <cstdint>
#include <optional>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/number_ranges.hpp"

namespace idproxy::id_store {

/// Arithmetic with a counter's numbers in its direction, and conversion to the value in its
/// document. Functions return nothing if the result exceeds int64. "Ahead" is upwards if the step
/// is positive, else downwards.
class Numbers {
 public:
  Numbers(const ids::CounterSpec& spec)
      : step_(spec.step), max_(spec.max), value_is_(spec.place.value_is) {}

  [[nodiscard]] bool upwards() const { return step_ > 0; }
  [[nodiscard]] bool is_ahead(std::int64_t a, std::int64_t of) const {
    return upwards() ? a > of : a < of;
  }
  [[nodiscard]] std::int64_t further(std::int64_t a, std::int64_t b) const {
    return is_ahead(a, b) ? a : b;
  }
  [[nodiscard]] bool is_beyond_max(std::int64_t number) const { return is_ahead(number, max_); }

  /// How much `count` numbers add to the stored value.
  [[nodiscard]] std::optional<std::int64_t> increment(std::uint64_t count) const {
    std::int64_t result = 0;
    if (count > INT64_MAX) return std::nullopt;
    if (__builtin_mul_overflow(step_, static_cast<std::int64_t>(count), &result)) return {};
    return result;
  }
  [[nodiscard]] std::optional<std::int64_t> after(std::int64_t number,
                                                  std::uint64_t count = 1) const {
    std::int64_t result = 0;
    const auto by = increment(count);
    if (!by || __builtin_add_overflow(number, *by, &result)) return std::nullopt;
    return result;
  }
  [[nodiscard]] std::optional<std::int64_t> before(std::int64_t number) const {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(number, step_, &result)) return std::nullopt;
    return result;
  }

  /// How often the step can be added to `value` within int64.
  [[nodiscard]] std::uint64_t room_behind(std::int64_t value) const {
    return distance(upwards() ? INT64_MAX : INT64_MIN, value) / distance(step_, 0);
  }

  /// The first number that a counter that stands at `value` gives out.
  [[nodiscard]] std::optional<std::int64_t> first_at(std::int64_t value) const {
    return value_is_ == ids::CounterPlace::ValueIs::next ? value : after(value);
  }
  /// The stored value of a counter that gives out `number` next.
  [[nodiscard]] std::optional<std::int64_t> value_before(std::int64_t number) const {
    return value_is_ == ids::CounterPlace::ValueIs::next ? number : before(number);
  }

  /// How many numbers there are from `first` to `last`, inclusive; 0 if `last` lies before `first`.
  [[nodiscard]] std::uint64_t count(std::int64_t first, std::int64_t last) const {
    return ids::Steps(step_).count(first, last);
  }

  /// |a - b|, in numbers, not in steps.
  [[nodiscard]] static std::uint64_t distance(std::int64_t a, std::int64_t b) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return a > b ? x - y : y - x;
  }

  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] std::int64_t max() const { return max_; }

 private:
  std::int64_t step_;
  std::int64_t max_;
  ids::CounterPlace::ValueIs value_is_;
};

}  // namespace idproxy::id_store
