#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "idproxy/ids/store.hpp"
#include "idproxy/rewrite/rule.hpp"

namespace idproxy::app {

/// The numbers that are left to a rule's counters or spaces of random numbers, over all its
/// collections: one set of statistics per rule, so that clients that invent collections cannot add
/// series. For a rule with wildcards, the collection that runs out first counts.
struct RuleStatistics {
  std::optional<std::int64_t> next;            ///< only if the rule has one counter
  std::optional<std::uint64_t> held;           ///< numbers in memory, of all counters together
  std::optional<std::uint64_t> left;           ///< of the counter that has the fewest left
  std::optional<std::uint64_t> live_ranges{};  ///< ranges that have numbers left
  std::optional<ids::SpaceUse> fullest;        ///< of the collection with the highest fill
};

/// By rule, in file order.
[[nodiscard]] std::vector<RuleStatistics> statistics_of(
    const std::vector<rewrite::Rule>& rules, const std::vector<ids::RuleNumbers>& numbers);

}  // namespace idproxy::app
