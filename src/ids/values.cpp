#include "idproxy/ids/values.hpp"

#include <algorithm>

namespace idproxy::ids {

void Values::add_string(std::string_view text) {
  std::copy_n(as_bytes(text).begin(), text.size(), add_string(text.size()));
}

}  // namespace idproxy::ids
