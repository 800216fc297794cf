#include "idproxy/ids/registry.hpp"

#include <array>
#include <type_traits>

// One line per strategy: its name in rules, the function that makes it, and that function's
// arguments besides the rule's keys.
#define IDPROXY_STRATEGIES(STRATEGY)                                         \
  STRATEGY("objectid", make_objectid, Sources)                               \
  STRATEGY("uuid", make_uuid, Sources)                                       \
  STRATEGY("counter", make_counter, Sources, std::string_view)               \
  STRATEGY("counter-ranges", make_counter_ranges, Sources, std::string_view) \
  STRATEGY("gapless", make_gapless, Sources, std::string_view)               \
  STRATEGY("random-digits", make_random_digits, Sources)

namespace idproxy::ids {

#define IDPROXY_DECLARE(name, make, ...) std::unique_ptr<Strategy> make(Parameters&, __VA_ARGS__);
IDPROXY_STRATEGIES(IDPROXY_DECLARE)

namespace {

/// Passes on the arguments that `kMake` needs.
template <auto kMake>
std::unique_ptr<Strategy> make(Parameters& parameters, Sources sources, std::string_view store_db) {
  if constexpr (std::is_invocable_v<decltype(kMake), Parameters&, Sources>) {
    return kMake(parameters, sources);
  } else {
    return kMake(parameters, sources, store_db);
  }
}

}  // namespace

std::span<const Kind> kinds() {
#define IDPROXY_KIND(name, function, ...) Kind{name, make<function>},
  static constexpr std::array kKinds{IDPROXY_STRATEGIES(IDPROXY_KIND)};
  return kKinds;
}

}  // namespace idproxy::ids
