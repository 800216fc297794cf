#pragma once

#include <string>

#include "idproxy/base/random.hpp"

namespace idproxy::app {

/// Looks the servers of `srv_uri`, a mongodb+srv string, up in the DNS, as often as it takes, and
/// returns the mongodb:// string that it stands for. Failures are logged.
[[nodiscard]] std::string await_seed_list(const std::string& srv_uri, RandomSource& random);

}  // namespace idproxy::app
