#include "rewrite/reserve_stage.hpp"

#include <algorithm>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/ids/scope.hpp"
#include "idproxy/rewrite/document_fields.hpp"

namespace idproxy::rewrite {
namespace {

using Is = ids::FieldValue::Is;
using ReservationState = ids::Reservation::State;

// As many values as the caller of the store waits for kPatience; for more it waits longer.
constexpr std::size_t kValuesInPatience = 20'000;

/// The index in given.given of the value that a statement gets for an assignment.
std::optional<std::size_t> find_given(const GivenValues& given, std::int32_t statement,
                                      std::size_t assignment) {
  for (const Given& each : given.of(statement)) {
    if (each.assignment == assignment) return static_cast<std::size_t>(&each - given.given.data());
  }
  return std::nullopt;
}

/// For the text of an error; empty for types that need more than a number or a string.
std::string text_of_value(const ids::TypedValue& value) {
  bson::Element element;
  element.type = value.type;
  element.value = as_bytes(value.bytes);
  if (value.type == bson::Type::string) return '"' + std::string(element.text()) + '"';
  const auto number = ids::integer_of(element);
  return number ? std::to_string(*number) : std::string();
}

ids::TypedValue value_at(const GivenValues& all, std::size_t at) {
  const Given& given = all.given[at];
  const ids::Values& values = all.values[given.assignment];
  return typed(values.type(), values[given.value]);
}

}  // namespace

/// Asks for the reservations of one batch.
class ReserveStage::Source final : public ids::StoreSource {
 public:
  Source(ids::Reservations& reservations, std::shared_ptr<ids::ReservationBatch> batch,
         std::string ns)
      : reservations_(reservations), batch_(std::move(batch)), ns_(std::move(ns)) {}

  [[nodiscard]] ids::Ticket ask(std::size_t /*n*/, std::unique_ptr<ids::Waiter> waiter) override {
    return reservations_.reserve(batch_, std::move(waiter));
  }
  [[nodiscard]] std::chrono::nanoseconds patience() const override {
    return kPatience * static_cast<std::int64_t>(1 + (batch_->size() - 1) / kValuesInPatience);
  }
  [[nodiscard]] std::string why_waiting() const override {
    return "the values have not been reserved in " + ns_ + " in time";
  }
  void accept(ids::Grant grant, ids::Values& /*out*/) override { static_cast<void>(grant.take()); }
  [[nodiscard]] const ids::ReservationBatch& batch() const { return *batch_; }

 private:
  ids::Reservations& reservations_;
  std::shared_ptr<ids::ReservationBatch> batch_;
  std::string ns_;
};

ReserveStage::ReserveStage(const WriteRequest& insert, const GivenValues& given,
                           std::span<const RefusedDocument> refused, Tell tell)
    : plan_(insert.plan),
      given_(given),
      ns_(insert.ns()),
      tell_(std::move(tell)),
      to_release_(insert.plan->size()) {
  Statements documents(insert.command);
  Outcome outcome;
  for (std::int32_t statement = 0;; ++statement) {
    const auto document = documents.next();
    if (!document) break;
    if (std::ranges::binary_search(refused, statement, {}, &RefusedDocument::index)) continue;
    add_places(statement, *document, outcome);
  }
  if (!outcome.refused.empty()) tell_(std::move(outcome));
}

ReserveStage::~ReserveStage() = default;

namespace {

/// Only what is good can be reserved: one command reserves values of several clients, and fails as
/// a whole. The server will refuse what is malformed.
bson::Form value_form(const bson::Element& value) {
  using bson::Form;
  constexpr std::size_t kLevels = 170;  // mongod accepts 180
  switch (value.type) {
    case bson::Type::boolean:
      return value.value[0] <= 1 ? Form::good : Form::malformed;
    case bson::Type::db_pointer:
    case bson::Type::code_with_scope:
      return Form::deprecated;
    case bson::Type::document:
    case bson::Type::array:
      return bson::form_of(value.value, kLevels);
    default:
      return Form::good;
  }
}

}  // namespace

/// The server refuses a document that is too large, or has no `_id` that can be read: there is
/// nothing to reserve. Nor is there in an array, where the rule gives no values.
void ReserveStage::add_places(std::int32_t statement, Bytes document, Outcome& outcome) {
  using bson::Form;
  if (static_cast<std::int64_t>(document.size()) > bson::kMaxUserDocument) return;
  std::optional<std::size_t> given_id;
  for (std::size_t i = 0; i < plan_->size() && !given_id; ++i) {
    if ((*plan_)[i].is_id()) given_id = find_given(given_, statement, i);
  }
  const auto id = field_at(document, "_id");
  if (!id || (!given_id && id->is == Is::missing)) return;
  const Form of_id = given_id ? Form::good : value_form(id->element);
  if (of_id == Form::malformed) return;
  for (std::size_t i = 0; i < plan_->size(); ++i) {
    const Assignment& assignment = (*plan_)[i];
    if (assignment.reservations == nullptr) continue;
    Place place{statement, static_cast<std::uint16_t>(i), find_given(given_, statement, i),
                given_id};
    Form form = of_id;
    if (!place.given_value) {
      const auto own = field_at(document, assignment.rule->field);
      if (!own || own->is == Is::missing || own->is == Is::in_array) continue;
      const Form of_own = value_form(own->element);
      if (of_own == Form::malformed) continue;
      form = std::max(form, of_own);
      // Of two fields with one name, this is the one that the server indexes.
      place.reservation.value = typed(own->element.type, own->element.value);
    }
    if (form == Form::deprecated) {
      place.reservation.state = ReservationState::refused;
      place.reservation.code = static_cast<std::int32_t>(ErrorCode::operation_failed);
      place.reservation.error = "it or the _id holds code with scope or a DBPointer";
      outcome.refused.push_back(refusal_of(place));
      while (!places_.empty() && places_.back().statement == statement) places_.pop_back();
      return;
    }
    if (!given_id) place.reservation.parent_id = typed(id->element.type, id->element.value);
    places_.push_back(std::move(place));
  }
}

/// Brings the reservation that the place needs up to date. True if it must be made.
bool ReserveStage::lacks(Place& place) {
  if (place.is_refused) return false;
  ids::Reservation needed;
  needed.value = place.given_value ? value_at(given_, *place.given_value) : place.reservation.value;
  needed.parent_id =
      place.given_id ? value_at(given_, *place.given_id) : place.reservation.parent_id;
  const bool changed =
      needed.value != place.reservation.value || needed.parent_id != place.reservation.parent_id;
  if (!changed && place.is_held) return false;
  drop(place);
  place.reservation = std::move(needed);
  return true;
}

std::optional<Need> ReserveStage::need(const Moment& moment) {
  asked_.clear();
  std::size_t assignment = 0;
  auto at = places_.begin();
  for (const std::int32_t statement : moment.todo) {
    at = std::lower_bound(at, places_.end(), statement,
                          [](const Place& place, auto wanted) { return place.statement < wanted; });
    for (; at != places_.end() && at->statement == statement; ++at) {
      if (!asked_.empty() && at->assignment != assignment) continue;
      if (!lacks(*at)) continue;
      assignment = at->assignment;
      asked_.push_back(static_cast<std::size_t>(at - places_.begin()));
    }
  }
  release();
  if (asked_.empty()) return std::nullopt;
  auto batch = std::make_shared<ids::ReservationBatch>();
  batch->reserve(asked_.size());
  for (const std::size_t place : asked_) batch->push_back(places_[place].reservation);
  const Assignment& target = (*plan_)[assignment];
  source_ =
      std::make_unique<Source>(*target.reservations, std::move(batch), target.rule->reserve->ns());
  return Need{this, &target, source_.get(), asked_.size(), source_->patience(), target.not_ready};
}

std::optional<End> ReserveStage::accept(const Answer& answer) {
  if (!*answer.grant) return answer.grant->error();
  static_cast<void>((*answer.grant)->take());
  Outcome outcome;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    Place& place = places_[asked_[i]];
    place.reservation = source_->batch()[i];
    const ReservationState state = place.reservation.state;
    place.is_held = state == ReservationState::made || state == ReservationState::own;
    if (place.is_held) continue;
    if (state == ReservationState::taken && place.given_value) {
      outcome.taken.push_back({place.statement, {*place.given_value}});
    } else {
      outcome.refused.push_back(refusal_of(place));
      refuse(place.statement);
    }
  }
  tell_(std::move(outcome));
  return std::nullopt;
}

RefusedDocument ReserveStage::give_up(const Collision& collision) {
  const auto place = std::ranges::find_if(
      asked_, [&](std::size_t at) { return places_[at].statement == collision.statement; });
  refuse(collision.statement);
  return refusal_of(places_[*place]);
}

void ReserveStage::refuse(std::int32_t statement) {
  for (Place& place : std::ranges::equal_range(places_, statement, {}, &Place::statement)) {
    place.is_refused = true;
  }
}

/// As mongod reports a violated unique index on the field.
RefusedDocument ReserveStage::refusal_of(const Place& place) const {
  const ids::Reservation& reservation = place.reservation;
  const Rule& rule = *(*plan_)[place.assignment].rule;
  const std::string& field = rule.field;
  if (reservation.state == ReservationState::refused) {
    return {place.statement, ErrorCode{reservation.code},
            "mongo-idproxy: the value of '" + field + "' cannot be reserved: " + reservation.error};
  }
  RefusedDocument refusal{place.statement, ErrorCode::duplicate_key,
                          "E11000 duplicate key error collection: " + ns_ + " index: " + field +
                              " reserved in " + rule.reserve->ns() + " dup key: { " + field + ": " +
                              text_of_value(reservation.value) + " }"};
  Buffer details;
  bson::append_inside(details, bson::Type::document, "keyPattern",
                      [&] { bson::append_int32(details, field, 1); });
  bson::append_inside(details, bson::Type::document, "keyValue", [&] {
    bson::append_head(details, reservation.value.type, field);
    details.append(as_bytes(reservation.value.bytes));
  });
  refusal.details = as_text(details.view());
  return refusal;
}

void ReserveStage::ended(const std::function<bool(std::int32_t)>& is_unstored) {
  for (Place& place : places_) {
    if (place.is_held && is_unstored(place.statement)) drop(place);
  }
  release();
}

/// Lets go of the reservation. Only this request's own is deleted: if there was one before, an
/// earlier attempt of the client may have stored the document.
void ReserveStage::drop(Place& place) {
  const bool is_held = std::exchange(place.is_held, false);
  if (!is_held || place.reservation.state != ReservationState::made) return;
  to_release_[place.assignment].push_back(place.reservation);
}

void ReserveStage::release() {
  for (std::size_t i = 0; i < to_release_.size(); ++i) {
    if (to_release_[i].empty()) continue;
    (*plan_)[i].reservations->release(std::exchange(to_release_[i], {}));
  }
}

}  // namespace idproxy::rewrite
