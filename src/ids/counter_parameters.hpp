#pragma once

#include <string_view>

#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/parameters.hpp"

namespace idproxy::ids {

/// Reads and checks the keys of a rule with the strategy counter (id-strategies 2). What names of
/// databases and collections may look like is not checked here.
[[nodiscard]] CounterUse read_counter(Parameters& rule, std::string_view store_db);

}  // namespace idproxy::ids
