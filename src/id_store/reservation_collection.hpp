#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "id_store/index.hpp"
#include "id_store/store_metrics.hpp"
#include "idproxy/base/clock.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/ids/error.hpp"
#include "idproxy/ids/reservations.hpp"

/// Commands on a collection of reservations, and the comparison of values without a server.
namespace idproxy::id_store {

/// Reservations of any requests.
using Reserved = std::span<ids::Reservation* const>;

/// The most statements that a server accepts in one command.
inline constexpr std::size_t kMostReserved = 100'000;

/// How many of the first ones fit into one command; at least one. The command must stay below 16
/// MiB, and so must a reply that says of each value that it is taken: the server closes the
/// connection instead of sending a larger one (observed, 6.0.5). That allows about 50,000 integers.
[[nodiscard]] std::size_t fitting(const ids::ReserveSpec& spec, Reserved items,
                                  std::size_t most = kMostReserved);
/// The size of a reservation in commands and in memory, roughly.
[[nodiscard]] std::size_t bytes_of(const ids::Reservation& item);

/// Marks the reservation as refused if its value can be in no reservation. Else false.
[[nodiscard]] bool refuse(ids::Reservation& item);

/// Returns a text that is the same for two values only if they are equal to MongoDB. Decimals, and
/// documents with numbers in them, may be equal although their texts differ.
[[nodiscard]] std::string key_of(const ids::TypedValue& value);
[[nodiscard]] ids::TypedValue value_of(const bson::Element& element);

/// insert, unordered. `at`: milliseconds since the Unix epoch, as everywhere here.
[[nodiscard]] mongo::Document insert_command(const ids::ReserveSpec& spec, Reserved items,
                                             std::int64_t at);

/// A reservation as the sweeper reads it.
struct OldReservation {
  ids::TypedValue id;  ///< its own _id
  ids::TypedValue value;
  ids::TypedValue parent_id;
  std::int64_t at = 0;
};

/// find: all with a date from `from` on and before `until`, in the order of the index on it, if
/// there is one.
enum class Order { by_date, any };
[[nodiscard]] mongo::Document old_command(const ids::ReserveSpec& spec, std::int64_t from,
                                          std::int64_t until, Order order);
/// find: the parents that these name, with the field.
[[nodiscard]] mongo::Document parents_command(const ids::ReserveSpec& spec,
                                              std::span<const OldReservation> items);
/// find: the parent, if it has the value. Compares as the server does.
[[nodiscard]] mongo::Document parent_command(const ids::ReserveSpec& spec,
                                             const OldReservation& item);
/// find: any parent.
[[nodiscard]] mongo::Document any_parent_command(const ids::ReserveSpec& spec);
/// delete, if they are as they were read.
[[nodiscard]] mongo::Document sweep_command(const ids::ReserveSpec& spec,
                                            std::span<const OldReservation> items);

/// One writeError of a reply.
struct ReservationError {
  std::size_t index;
  std::int32_t code;
  std::string text;
};
/// The result of a write, from its reply.
struct WriteOutcome {
  bool executed = false;  ///< by a primary: the command as a whole did not fail
  std::int64_t n = 0;     ///< inserted, matched or deleted
  std::vector<ReservationError> errors{};
  bool majority = true;  ///< without a writeConcernError
};
[[nodiscard]] WriteOutcome outcome_of(const mongo::Reply& reply);

/// One collection of reservations (docs/reserve.md):
///
///   make      insert {documents: [{_id: value, parent_id, at}, …], ordered: false, w: majority}
///   own       update {q: {_id: value, parent_id}, u: [{$set: {at: later}}], w: majority}
///   release   delete {deletes: [{q: {_id: value, parent_id, at}, limit: 1}, …], w: majority}
///
/// Each call waits for the server. Any thread.
class ReservationCollection {
 public:
  /// The reaction of prepare() to a missing index.
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
  [[nodiscard]] std::optional<ids::Error> prepare(mongo::Client& client) const;

 private:
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
