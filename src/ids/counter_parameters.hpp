#pragma once

#include <string_view>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/counter_use.hpp"

namespace idproxy::ids {

/// Reads and checks the keys of a rule with the strategy counter
/// (docs/configuration.md#keys-of-the-strategy-counter). Does not check the names of databases and
/// collections.
[[nodiscard]] CounterUse read_counter(Parameters& rule, std::string_view store_db);

/// Read the sections of a rule that other strategies have as well.
[[nodiscard]] CounterSpec::Heal read_heal(Parameters& heal);
[[nodiscard]] CounterSpec::OnStoreDown read_on_store_down(Parameters& on_store_down);
/// Reads the keys `output` and `format`.
[[nodiscard]] NumberFormat read_format(Parameters& rule);

}  // namespace idproxy::ids
