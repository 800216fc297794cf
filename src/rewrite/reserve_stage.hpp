#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/ids/reservations.hpp"
#include "idproxy/rewrite/duplicates.hpp"
#include "idproxy/rewrite/request.hpp"
#include "idproxy/rewrite/stage.hpp"

namespace idproxy::rewrite {

/// The reservations of one insert: those that its documents need before they are sent, generated
/// values as well as the client's own, and those that must be deleted again, because their
/// documents are certainly not stored (docs/reserve.md).
class ReserveStage final : public Stage {
 public:
  /// Documents whose values could not be reserved.
  struct Outcome {
    std::vector<Collision> taken;          ///< generated values that are taken
    std::vector<RefusedDocument> refused;  ///< the client's own values: taken, or not possible
  };
  using Tell = std::function<void(Outcome outcome)>;

  /// Reads the documents. `given` must outlive it, and may change: a value that has been replaced,
  /// or whose document has another `_id` now, is reserved anew. `refused` documents need nothing.
  /// `tell` is called for each answer of the store, and at once for values that nobody can reserve.
  ReserveStage(const WriteRequest& insert, const GivenValues& given,
               std::span<const RefusedDocument> refused, Tell tell);
  ~ReserveStage() override;

  /// The values of one rule. The source is valid until the next call.
  [[nodiscard]] std::optional<Need> need(const Moment& moment) override;
  [[nodiscard]] std::optional<End> accept(const Answer& answer) override;
  /// The error for a document whose generated values stay taken. It needs no reservation any more.
  [[nodiscard]] RefusedDocument give_up(const Collision& collision);
  void ended(const std::function<bool(std::int32_t)>& is_unstored) override;

 private:
  /// A value that a document gets, or has.
  struct Place {
    std::int32_t statement;
    std::uint16_t assignment;
    std::optional<std::size_t> given_value;  // index in given_.given; nothing: reservation.value
    std::optional<std::size_t> given_id;     // the same for the document's _id
    bool is_held = false;                    // nobody else can get the value
    bool is_refused = false;
    ids::Reservation reservation{};
  };
  class Source;

  void add_places(std::int32_t statement, Bytes document, Outcome& outcome);
  [[nodiscard]] bool lacks(Place& place);
  void drop(Place& place);
  void refuse(std::int32_t statement);
  void release();
  [[nodiscard]] RefusedDocument refusal_of(const Place& place) const;

  std::shared_ptr<const Plan> plan_;
  const GivenValues& given_;
  std::string ns_;
  const Tell tell_;
  std::vector<Place> places_;  // by statement
  // The last Need.
  std::unique_ptr<Source> source_;
  std::vector<std::size_t> asked_;                 // indexes in places_
  std::vector<ids::ReservationBatch> to_release_;  // by assignment
};

}  // namespace idproxy::rewrite
