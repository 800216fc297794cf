#pragma once

#include <string>
#include <vector>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/source.hpp"
#include "idproxy/rewrite/rule.hpp"

namespace idproxy::config {

/// Reads `rules`: checks each rule by itself, then each pair for conflicts. No rule may apply to
/// `store_db`, the proxy's own database.
[[nodiscard]] std::vector<rewrite::Rule> read_rules(Parameters& file, const std::string& store_db,
                                                    ids::Sources sources);

}  // namespace idproxy::config
