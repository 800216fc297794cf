#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/grant.hpp"

namespace idproxy::ids {

/// Where a rule reserves its values before documents with them are stored
/// (docs/reserve.md).
struct ReserveSpec {
  enum class Layout {
    id,     ///< {_id: <value>, parent_id, at}
    field,  ///< {_id: ObjectId, <name>: <value>, parent_id, at}, with a unique index on <name>
  };
  std::string db;
  std::string collection;
  Layout layout = Layout::id;
  std::string name = "_id";  ///< of the field that has the value
  std::chrono::seconds orphan_after{std::chrono::hours(24)};
  std::string parent_ns;     ///< "db.collection" of the documents that have the values
  std::string parent_field;  ///< dotted path of the value in them
  /// "db.collection" of the reservations.
  [[nodiscard]] std::string ns() const { return db + "." + collection; }
  friend bool operator==(const ReserveSpec&, const ReserveSpec&) = default;
};

/// A value of any type, as in BSON without the key.
struct TypedValue {
  bson::Type type = bson::Type::null;
  std::string bytes;
  friend bool operator==(const TypedValue&, const TypedValue&) = default;
};

/// One value for one document.
struct Reservation {
  enum class State {
    wanted,   ///< nothing has been done yet
    made,     ///< this request made it
    own,      ///< it was there already, for this same document
    taken,    ///< it is there for another document
    refused,  ///< the server refuses it, with `code` and `error`
  };
  TypedValue value;
  TypedValue parent_id;  ///< the document's _id
  State state = State::wanted;
  std::int64_t at = 0;  ///< made: its date, milliseconds since the Unix epoch
  std::int32_t code = 0;
  std::string error{};
};

/// The reservations that one request asks for at once. If a value occurs twice, the first one gets
/// it.
using ReservationBatch = std::vector<Reservation>;

/// The proxy collection of one rule. Thread-safe.
class Reservations {
 public:
  virtual ~Reservations() = default;

  /// Makes the reservations, with write concern majority. `waiter` gets one answer, on any thread,
  /// unless the ticket is destroyed first; until then `batch` belongs to this object. With a grant,
  /// no reservation is `wanted` any more. The caller that takes the grant becomes responsible for
  /// those that are `made`; a grant or ticket that is destroyed before that releases them. After an
  /// error none is of use.
  [[nodiscard]] virtual Ticket reserve(std::shared_ptr<ReservationBatch> batch,
                                       std::unique_ptr<Waiter> waiter) = 0;
  /// Deletes reservations that a request made, in the background: their documents are certainly not
  /// stored. Those that cannot be deleted are left to the sweeper. Never fails.
  virtual void release(ReservationBatch made) noexcept = 0;
};

}  // namespace idproxy::ids
