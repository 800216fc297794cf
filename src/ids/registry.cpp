#include "idproxy/ids/registry.hpp"

#include <array>

#include "ids/factories.hpp"

namespace idproxy::ids {

std::span<const Kind> kinds() {
  static constexpr std::array kKinds{
      Kind{"objectid", make_objectid},
      Kind{"uuid", make_uuid},
      Kind{"random-digits", make_random_digits},
  };
  return kKinds;
}

}  // namespace idproxy::ids
