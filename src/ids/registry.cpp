#include "idproxy/ids/registry.hpp"

#include <array>

// One line per strategy: how rules name it, and the function that its file defines.
#define IDPROXY_STRATEGIES(STRATEGY)  \
  STRATEGY("objectid", make_objectid) \
  STRATEGY("uuid", make_uuid)         \
  STRATEGY("random-digits", make_random_digits)

namespace idproxy::ids {

#define IDPROXY_DECLARE(name, make) std::unique_ptr<Strategy> make(Parameters&, Sources);
IDPROXY_STRATEGIES(IDPROXY_DECLARE)

std::span<const Kind> kinds() {
#define IDPROXY_KIND(name, make) Kind{name, make},
  static constexpr std::array kKinds{IDPROXY_STRATEGIES(IDPROXY_KIND)};
  return kKinds;
}

}  // namespace idproxy::ids
