#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/mongo.hpp"
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
/// find {name: {$in: [...]}}
[[nodiscard]] mongo::Document find_command(const ids::ReserveSpec& spec, Reserved items);
/// find {name: {$eq: value}}, which compares as the server does.
[[nodiscard]] mongo::Document find_command(const ids::ReserveSpec& spec,
                                           const ids::Reservation& item);
/// update, for each reservation that exists for the same parent: sets the date to `now`, or later,
/// so that it differs from the one before.
[[nodiscard]] mongo::Document refresh_command(const ids::ReserveSpec& spec, Reserved items,
                                              std::int64_t now);
/// delete, where the date is the one that was written.
[[nodiscard]] mongo::Document release_command(const ids::ReserveSpec& spec, Reserved items);

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
/// delete, if they are as they were read.
[[nodiscard]] mongo::Document sweep_command(const ids::ReserveSpec& spec,
                                            std::span<const OldReservation> items);

/// One writeError of a reply.
struct WriteError {
  std::size_t index;
  std::int32_t code;
  std::string text;
};
/// The result of a write, from its reply.
struct WriteOutcome {
  bool executed = false;  ///< by a primary: the command as a whole did not fail
  std::int64_t n = 0;     ///< inserted, matched or deleted
  std::vector<WriteError> errors{};
  bool majority = true;  ///< without a writeConcernError
};
[[nodiscard]] WriteOutcome outcome_of(const mongo::Reply& reply);

}  // namespace idproxy::id_store
