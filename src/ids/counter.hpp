#pragma once

#include <memory>
#include <string_view>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/rule_source.hpp"

namespace idproxy::ids {

/// Reads what remains of a counter whose values and numbers `about` has: `block`, `name`, `store`,
/// `scan`, `heal` with `read_heal`, and `on_store_down`.
void read_counter(RuleSource::About& about, Parameters& rule, std::string_view store_db,
                  CounterSpec::Heal (*read_heal)(Parameters&));

/// A rule whose values are the numbers of a counter, as `about` writes them.
[[nodiscard]] std::unique_ptr<RuleSource> counter_rule(RuleSource::About about, const Clock& clock);

}  // namespace idproxy::ids
