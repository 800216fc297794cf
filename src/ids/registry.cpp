#include "idproxy/ids/registry.hpp"

#include <array>

// One line per strategy: its name in rules, and the function that makes it.
#define IDPROXY_STRATEGIES(STRATEGY)              \
  STRATEGY("objectid", make_objectid)             \
  STRATEGY("uuid", make_uuid)                     \
  STRATEGY("counter", make_counter)               \
  STRATEGY("counter-ranges", make_counter_ranges) \
  STRATEGY("gapless", make_gapless)               \
  STRATEGY("random-digits", make_random_digits)

namespace idproxy::ids {

#define IDPROXY_DECLARE(name, make) MakeRuleSource make;
IDPROXY_STRATEGIES(IDPROXY_DECLARE)

std::span<const Kind> kinds() {
#define IDPROXY_KIND(name, make) Kind{name, make},
  static constexpr std::array kKinds{IDPROXY_STRATEGIES(IDPROXY_KIND)};
  return kKinds;
}

}  // namespace idproxy::ids
