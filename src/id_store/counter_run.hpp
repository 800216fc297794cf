#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "id_store/collection_scans.hpp"
#include "id_store/counter_commands.hpp"
#include "id_store/counter_events.hpp"
#include "id_store/numbers.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/outcome.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/ids/counter_job.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/grant.hpp"

/// The steps of a counter's jobs, which CounterDocument carries out.
namespace idproxy::id_store {

/// A counter between its jobs.
struct CounterState {
  const ids::CounterSpec spec;
  StoreMetrics& metrics;
  CollectionScans& scans;
  Numbers numbers{spec};
  mongo::Document identity = identity_of(spec.place);  ///< {key_field: key, …filter}
  CounterEvents events{spec};
  bool marked = false;      ///< certainly
  bool mark_first = false;  ///< it failed: before the next allocation
  bool converts = false;  ///< the last value was a double: the next allocation converts it to int64
  /// Where a new counter's search for free numbers goes on.
  std::optional<std::int64_t> taken_up_to{};
};

/// A counter's document, as it was read.
struct FoundCounter {
  bool exists = false;
  StoredValue value;
  StoredValue last{};       ///< of a range: its last number
  bool lacks_seal = false;  ///< seal() must come before numbers are allocated
  [[nodiscard]] bool has_value() const {
    return exists && value.kind != StoredValue::Kind::missing;
  }
};

/// The job's reply; nothing: try again.
using Attempt = std::optional<ids::CounterReply>;

/// A job under way.
struct CounterRun {
  CounterState& counter;
  mongo::Client& client;
  const ids::CounterJob& job;
  std::span<const ids::CounterField> fields;
  const ids::CounterSpec& spec = counter.spec;
  const Numbers& numbers = counter.numbers;
  /// The numbers to allocate; fewer than the job's near int64's end.
  std::uint64_t count = job.count;
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::string unreached{};    ///< why the last command reached no server; empty if it did
  bool met_by_check = false;  ///< the job failed in what a check does, too
  bool not_healed = false;    ///< CounterReply::Kind::not_healed

  [[nodiscard]] ids::Result<FoundCounter> read();
  /// findAndModify, if the counter's value meets the condition.
  template <class Update>
  [[nodiscard]] mongo::Reply change(const mongo::Document& value, const Update& update) const {
    return client.write(
        spec.place.db,
        {{"findAndModify", spec.place.collection}, {"query", query(value)}, {"update", update}});
  }
  [[nodiscard]] mongo::Document query(const mongo::Document& value) const;
  /// The condition of an allocation: matches a value, int or double, that has a number left to give
  /// out and to which `increment` can be added. Without it, $inc would create a missing V, and a
  /// pipeline's $add would turn into a double at int64's end.
  [[nodiscard]] mongo::Document bound(std::int64_t increment) const;
  /// The job's reply after a failed command.
  [[nodiscard]] ids::Error answer_to(const mongo::Reply& reply);
  /// After a failed write: tries again if little time has passed, else fails the job.
  [[nodiscard]] Attempt after_failure(const mongo::Reply& reply, bool gives_numbers);
  void drop_block(std::string_view reason) const;
  [[nodiscard]] ids::Error not_an_integer() const;
};

/// The counter has given out all its numbers.
[[nodiscard]] inline ids::Error at_max(const ids::CounterSpec& spec) {
  return ids::handed_out_up_to(spec.max);
}

// ---- counter_document.cpp

[[nodiscard]] Attempt allocate(CounterRun& run);
/// From `from` on, if the range is not further.
[[nodiscard]] Attempt allocate_in_range(CounterRun& run, std::optional<std::int64_t> from);
[[nodiscard]] Attempt allocated(CounterRun& run, std::int64_t first, std::uint64_t count);
/// Why the range gives no numbers; nothing: try again.
[[nodiscard]] Attempt explain_range(CounterRun& run, const FoundCounter& found);
[[nodiscard]] Attempt seal(CounterRun& run, const FoundCounter& found);

// ---- counter_healing.cpp

struct NewCounter {
  std::int64_t first;
  std::string_view warning;  ///< empty: none
  bool by_scan = false;
  bool was_used = false;  ///< somebody had numbers of the counter, which has gone
};
/// The first number of a new counter: past `start`, all stored numbers, and all numbers that this
/// process was ever given. A counter that existed before was lost, and other proxies may hold
/// numbers of it. `exists`: its document does, without a value.
[[nodiscard]] ids::Result<NewCounter> first_of_new(CounterRun& run, bool exists);
[[nodiscard]] Attempt create_at(CounterRun& run, bool exists, const NewCounter& created);
[[nodiscard]] Attempt create(CounterRun& run, bool exists);
[[nodiscard]] ids::Result<void> mark(CounterRun& run);

/// What a heal does.
struct HealTarget {
  std::int64_t first;  ///< the first number that may be given out
  bool by_gap;         ///< numbers after `first` may be taken: look for free ones
  /// The counter need not move: these of the process's numbers are taken.
  std::optional<std::vector<ids::Range>> taken{};
};
/// `stands`: the number that the counter would give out next without the heal.
[[nodiscard]] ids::Result<HealTarget> heal_target(CounterRun& run, std::int64_t stands);
[[nodiscard]] Attempt heal(CounterRun& run);

}  // namespace idproxy::id_store
