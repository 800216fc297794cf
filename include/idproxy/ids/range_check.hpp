#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/ids/range_spec.hpp"

namespace idproxy::ids {

/// A range's document, as the store has read it. Nothing: the field is missing or not an integer.
struct RangeDocument {
  std::int64_t number;
  std::optional<std::int64_t> count;      ///< COUNT
  std::optional<std::int64_t> max_value;  ///< MAX_VALUE
};

/// The ranges of a collection, as its documents define them.
struct RangeFindings {
  std::vector<RangeState> ranges;   ///< ascending; complete if `missing` and `fault` are empty
  std::vector<RangeState> missing;  ///< to be created, descending; `next` is their first number
  std::string fault;                ///< why they cannot be used, for people; empty: they can
};

/// Checks that the documents are those that the rule describes, and that no two ranges have a
/// number in common. A range begins where the rule's layout says; without one, behind the range
/// before it, and the first of all where it stands now. A range whose COUNT is no integer has no
/// numbers.
///
/// Without a layout the documents themselves are the ranges. If there are none, the rule gets those
/// of the default layout. They are created from the last to the first, so that a set of them
/// without number 0 was interrupted, and is completed.
[[nodiscard]] RangeFindings check_ranges(const RangesSpec& spec,
                                         std::span<const RangeDocument> documents);

}  // namespace idproxy::ids
