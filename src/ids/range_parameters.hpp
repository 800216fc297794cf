#pragma once

#include <string_view>

#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/range_spec.hpp"

namespace idproxy::ids {

/// A rule's ranges, and the field that the rule fills from them.
struct RangesUse {
  RangesSpec ranges;
  CounterField field;
};

/// Reads and checks the keys of a rule with the strategy counter-ranges
/// (docs/configuration.md#keys-of-the-strategy-counter-ranges). Does not check the names of
/// databases and collections.
[[nodiscard]] RangesUse read_ranges(Parameters& rule, std::string_view store_db);

}  // namespace idproxy::ids
