#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/views/terminal.hpp"
#include "idproxy/id_store/stored_counters.hpp"

/// What the command `counters` says of counters, and which numbers it sets them to.
namespace idproxy::app::jobs {

/// A counter, its name among all, and what is stored of its numbers.
struct CounterView {
  std::string name;
  const id_store::StoredCounter& counter;
  id_store::StoredNumbers stored;
};

/// The name of each: its key, or "db.collection key" if another one has the same key, and with its
/// first rule behind it if that one is in the same collection.
[[nodiscard]] std::vector<std::string> names_of(std::span<const id_store::StoredCounter> counters);

/// A table with a line for each.
[[nodiscard]] std::string counters_text(std::span<const CounterView> counters,
                                        const views::Terminal& terminal);
/// All of one counter, a line for each figure.
[[nodiscard]] std::string counter_text(const CounterView& view, const views::Terminal& terminal);
/// The same for programs (docs/command-line.md#counters).
[[nodiscard]] boost::json::object counter_json(const CounterView& view);

/// Why a counter that exists must not give out `next` next, for people; empty: it may. What only
/// `--force` permits is left out with Force::yes.
enum class Force { no, yes };
[[nodiscard]] std::string refusal_to_set(const CounterView& view, std::int64_t next, Force force);
/// What goes wrong if it is set nevertheless, or although it goes back; one text each.
[[nodiscard]] std::vector<std::string> dangers_of(const CounterView& view, std::int64_t next);

/// The number right behind the largest one that is stored, to which a counter that is behind the
/// data must be set.
struct SyncTarget {
  std::optional<std::int64_t>
      next{};             ///< nothing: see `refusal`; if that is empty, it is not behind
  std::string refusal{};  ///< why it cannot be set, for people
};
[[nodiscard]] SyncTarget sync_target(const CounterView& view);

}  // namespace idproxy::app::jobs
