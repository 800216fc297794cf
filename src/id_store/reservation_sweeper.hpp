#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "id_store/reservation_collection.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {

/// Deletes the orphans of one collection: reservations older than `orphan_after` whose parent is
/// missing or has another value. Several processes may do so at once. One thread at a time.
///
/// A sweep reads the reservations that have become old since the last one. At first, and then once
/// a day, it reads all of them, since documents may have been deleted.
class ReservationSweeper {
 public:
  /// How far clocks may disagree, or a reservation be late, without waiting for the daily sweep.
  static constexpr std::chrono::minutes kOverlap{10};
  static constexpr std::chrono::hours kWholeEvery{24};

  /// `clock` and `metrics` must outlive it.
  ReservationSweeper(ids::ReserveSpec spec, const Clock& clock, StoreMetrics& metrics);

  struct Swept {
    std::uint64_t read = 0;
    std::uint64_t deleted = 0;
    std::string failure{};    ///< why the sweep ended early, for the log; empty: it did not
    bool is_complete = true;  ///< false: orphans are left, since the collection has no document
  };
  /// `pause` is called after each thousand reservations, with the time that they took. The sweep
  /// ends if it returns false.
  using Pause = std::function<bool(std::chrono::nanoseconds took)>;
  Swept sweep(mongo::Client& client, mongo::Client& writer, const Pause& pause);

  /// How long to wait between two sweeps.
  [[nodiscard]] std::chrono::seconds interval() const;

 private:
  const ids::ReserveSpec spec_;
  const Clock& clock_;
  StoreMetrics& metrics_;
  std::int64_t from_ = std::numeric_limits<std::int64_t>::min();  // date, of the next sweep
  std::optional<std::int64_t> resume_;  // date up to which the last sweep came, if it ended early
  std::optional<std::chrono::nanoseconds> whole_at_;  // monotonic, when to read all again
};

}  // namespace idproxy::id_store
