#include "idproxy/ids/strategies.hpp"

#include <algorithm>
#include <array>

// One line per strategy: its name in rules, and the function that makes it.
#define IDPROXY_STRATEGIES(STRATEGY)              \
  STRATEGY("objectid", make_objectid)             \
  STRATEGY("uuid", make_uuid)                     \
  STRATEGY("ulid", make_ulid)                     \
  STRATEGY("counter", make_counter)               \
  STRATEGY("counter-ranges", make_counter_ranges) \
  STRATEGY("gapless", make_gapless)               \
  STRATEGY("random-digits", make_random_digits)   \
  STRATEGY("nanoid", make_nanoid)

namespace idproxy::ids {

Fit RuleSource::fit(bson::Type type, Bytes value) const {
  Values sample;
  append_samples(1, sample);
  if (type != sample.type()) return Fit::wrong_type;
  const bool counts = about_.counter || about_.ranges || about_.gapless;
  if (counts)
    return about_.sequences.text ? Fit::fits : fit_number(type, value, about_.field.format).fit;
  constexpr std::size_t kBinaryHead = 4 + 1;  // size and subtype
  const std::size_t head = type == bson::Type::binary ? kBinaryHead : 0;
  const bool is_like_it = value.size() == sample[0].size() &&
                          std::ranges::equal(value.first(head), sample[0].first(head));
  return is_like_it ? Fit::fits : Fit::wrong_form;
}

#define IDPROXY_DECLARE(name, make) MakeRuleSource make;
IDPROXY_STRATEGIES(IDPROXY_DECLARE)

std::span<const Kind> kinds() {
#define IDPROXY_KIND(name, make) Kind{name, make},
  static constexpr std::array kKinds{IDPROXY_STRATEGIES(IDPROXY_KIND)};
  return kKinds;
}

}  // namespace idproxy::ids
