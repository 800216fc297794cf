#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/state/snapshot.hpp"
#include "idproxy/metrics/metrics_page.hpp"

namespace idproxy::app::state {

/// The figures of one rule, over all its collections, so that clients that invent collections
/// cannot add series. For a rule with wildcards, the collection that runs out first counts.
struct RuleFigures {
  metrics::Labels labels;
  std::optional<std::uint64_t> not_ready{};    ///< collections
  std::optional<std::uint64_t> unguarded{};    ///< collections
  std::optional<std::int64_t> run_out{};       ///< collections
  std::optional<std::int64_t> next{};          ///< only if the rule has one counter
  std::optional<std::uint64_t> held{};         ///< numbers in memory, of all counters together
  std::optional<std::uint64_t> left{};         ///< of the counter that has the fewest left
  std::optional<std::uint64_t> live_ranges{};  ///< ranges that have numbers left
  std::optional<std::uint64_t> documents{};    ///< of the collection with the highest fill
  std::optional<double> fill{};
  std::optional<double> max_fill{};
  std::optional<std::int64_t> machine{};  ///< number

  void add(const ids::CounterNumbers& counter);
  void add(const ids::SpaceUse& space);
  void add(const ids::MachineNumber& its) { machine = its.number; }
};

/// By rule, in file order.
[[nodiscard]] std::vector<RuleFigures> figures_of(const Snapshot& snapshot);

}  // namespace idproxy::app::state
