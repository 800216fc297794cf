#pragma once

#include <cstdint>
#include <string>

#include "idproxy/ids/store.hpp"
#include "idproxy/metrics/metrics.hpp"

namespace idproxy::id_store {

/// Counts since the start, and current values, of the id store. Each is exact; together they are
/// not a snapshot.
struct StoreStatistics : ids::StoreCounts {
  std::uint64_t round_trips_failed = 0;   ///< could not be sent, no answer, or no majority
  metrics::HistogramValues round_trip{};  ///< their durations, including failed ones
  bool up = true;                         ///< the last job of a counter reached a server
  /// The reason if not `up`, for people: "does not answer: …", "refuses the proxy's login: …"
  std::string down_reason{};

  std::uint64_t reservations_made = 0;
  std::uint64_t reservations_taken = 0;     ///< not made: the value belongs to another document
  std::uint64_t reservations_released = 0;  ///< deleted, because their documents are not stored
  std::uint64_t reservations_swept = 0;     ///< deleted as orphans

  // Now, over all counters of this process.
  std::uint64_t counters = 0;
  std::uint64_t counters_exhausted = 0;    ///< have no number left: their max is reached
  std::uint64_t counters_refused = 0;      ///< get no numbers for a reason that can be removed
  std::uint64_t requests_waiting = 0;      ///< inserts that wait for numbers
  std::uint64_t reservations_waiting = 0;  ///< inserts that wait for reservations
  std::uint64_t numbers_held = 0;          ///< in memory, for the next inserts
  std::uint64_t numbers_of_blocks = 0;     ///< numbers_held if every counter had a full block
};

}  // namespace idproxy::id_store
