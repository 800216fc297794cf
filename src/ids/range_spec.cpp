#include "idproxy/ids/range_spec.hpp"

#include <charconv>

#include "idproxy/ids/refill_pace.hpp"

namespace idproxy::ids {

std::string range_key(std::int64_t number) {
  return std::string(kRangePrefix) + std::to_string(number);
}

std::optional<std::int64_t> range_number(std::string_view key) {
  if (!key.starts_with(kRangePrefix)) return std::nullopt;
  const std::string_view digits = key.substr(kRangePrefix.size());
  std::int64_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  // Writing the number again checks signs and leading zeros.
  if (read.ec != std::errc{} || number < 0 || range_key(number) != key) return std::nullopt;
  return number;
}

CounterSpec counter_of(const RangesSpec& spec, const RangeState& range) {
  CounterSpec counter = spec.counter;
  counter.place.key = range_key(range.number);
  counter.start = range.first;
  counter.max = range.last;
  if (spec.pick == RangesSpec::Pick::sticky) return counter;
  // The RangeSet says how many numbers to fetch, and from where: a range must not fetch ahead.
  const bool is_auto = !spec.counter.block.size;
  counter.block = {.size = 1, .prefetch = 0};
  if (is_auto) counter.block.idle = RefillPace::kBlockLasts;
  return counter;
}

}  // namespace idproxy::ids
