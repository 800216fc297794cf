#pragma once

#include <atomic>
#include <cstdint>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/store.hpp"

namespace idproxy::id_store {

/// Counts since the start, as in StoreStatistics. Thread-safe; each is exact, together they are not
/// a snapshot.
struct StoreMetrics {
  mongo::RoundTrips round_trips;
  std::atomic<std::uint64_t> blocks{0};
  std::atomic<std::uint64_t> blocks_dropped{0};
  std::atomic<std::uint64_t> heals{0};
  std::atomic<std::uint64_t> numbers_allocated{0};
  std::atomic<std::uint64_t> numbers_returned{0};
  std::atomic<std::uint64_t> reservations_made{0};
  std::atomic<std::uint64_t> reservations_taken{0};
  std::atomic<std::uint64_t> reservations_released{0};
  std::atomic<std::uint64_t> reservations_swept{0};

  [[nodiscard]] ids::StoreCounts counts() const {
    return {.round_trips = round_trips.sent,
            .blocks = blocks,
            .blocks_dropped = blocks_dropped,
            .numbers_allocated = numbers_allocated,
            .numbers_returned = numbers_returned,
            .heals = heals};
  }
};

}  // namespace idproxy::id_store
