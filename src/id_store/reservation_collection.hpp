#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "id_store/index.hpp"
#include "id_store/reservation_commands.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/error.hpp"

namespace idproxy::id_store {

/// One collection of reservations (docs/reserve.md):
///
///   make      insert {documents: [{_id: value, parent_id, at}, …], ordered: false, w: majority}
///   own       update {q: {_id: value, parent_id}, u: [{$set: {at: later}}], w: majority}
///   release   delete {deletes: [{q: {_id: value, parent_id, at}, limit: 1}, …], w: majority}
///
/// Each call waits for the server. Any thread.
class ReservationCollection {
 public:
  /// The reaction of look() to a missing index.
  enum class Missing {
    create,
    assume,  ///< nothing, as if it were there
  };
  /// `clock` and `metrics` must outlive it.
  ReservationCollection(ids::ReserveSpec spec, Missing missing, const Clock& clock,
                        StoreMetrics& metrics);

  [[nodiscard]] const ids::ReserveSpec& spec() const { return spec_; }

  /// Makes those that are `wanted`. After an error, some may still be `wanted`: it is not known
  /// whether they were made.
  [[nodiscard]] std::optional<ids::Error> make(mongo::Client& client,
                                               std::vector<ids::Reservation*> items) const;
  /// Deletes reservations that were made. With an error, some may still be there.
  std::optional<ids::Error> release(mongo::Client& client, Reserved made) const;

  /// Why values cannot be reserved, for people; nothing: they can. Makes missing indexes.
  [[nodiscard]] std::optional<ids::Error> look(mongo::Client& client) const;

 private:
  struct Run {
    mongo::Client& client;
    std::chrono::nanoseconds begun;  ///< monotonic
    std::int64_t at;
  };
  using Failure = std::optional<ids::Error>;
  using Items = std::vector<ids::Reservation*>;

  [[nodiscard]] Failure make(const Run& run, Items items) const;
  [[nodiscard]] Failure insert(const Run& run, Reserved items, Items& taken) const;
  [[nodiscard]] Failure judge(const Run& run, const Items& taken, Items& again) const;
  [[nodiscard]] Failure judge_some(const Run& run, Reserved taken, Items& own, Items& again) const;
  [[nodiscard]] Failure refresh(const Run& run, Reserved items, Items& again) const;
  /// Repeats the write for a moment, until `use` accepts the outcome.
  [[nodiscard]] Failure send(const Run& run, const mongo::Document& command,
                             const std::function<bool(const WriteOutcome&)>& use) const;
  [[nodiscard]] Failure read(const Run& run, const mongo::Document& command,
                             const std::function<void(Bytes)>& use) const;
  [[nodiscard]] ids::Error error_of(const mongo::Client& client, const mongo::Reply& reply) const;

  [[nodiscard]] std::string why_unfit(mongo::Client& client) const;
  [[nodiscard]] mongo::Reply try_to_write(mongo::Client& client) const;
  [[nodiscard]] Failure look_at_parents(mongo::Client& client) const;
  [[nodiscard]] Failure look_at_indexes(mongo::Client& client) const;
  [[nodiscard]] Failure make_unique_index(mongo::Client& client,
                                          const std::vector<Index>& indexes) const;

  const ids::ReserveSpec spec_;
  const Missing missing_;
  const Clock& clock_;
  StoreMetrics& metrics_;
};

/// True if reservations can be read by their dates through one of the indexes.
[[nodiscard]] bool has_dates(std::span<const Index> indexes);

/// Milliseconds since the Unix epoch.
[[nodiscard]] std::int64_t milliseconds_of(const Clock& clock);

}  // namespace idproxy::id_store
