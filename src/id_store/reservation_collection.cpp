#include "id_store/reservation_collection.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "id_store/index.hpp"
#include "id_store/reply_reasons.hpp"
#include "id_store/server_text.hpp"
#include "idproxy/base/bytes.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/ids/scope.hpp"

namespace idproxy::id_store {
namespace {

using bson::Type;
using ids::Errc;
using ids::Error;
using ids::Reservation;
using ids::ReserveSpec;
using ids::TypedValue;
using mongo::Array;
using mongo::Client;
using mongo::Document;
using mongo::Reply;
using State = Reservation::State;

// Of 16 MiB, for documents or errors.
constexpr std::size_t kMostCommandBytes = std::size_t{12} * 1024 * 1024;
// The size of a reservation without its value and parent_id: names, date, the statement around it.
constexpr std::size_t kFixedBytes = 96;
// The size of a duplicate key error without the namespace, the field (three times) and the value.
// The value is repeated in the text, but cut there (observed, 6.0.5): kMostErrorText.
constexpr std::size_t kFixedErrorBytes = 180;
constexpr std::size_t kMostErrorText = 400;

/// {name: value}
Document one(std::string_view name, const TypedValue& value) {
  return {name, value.type, as_bytes(value.bytes)};
}

/// {name: {$eq: value}}: alone, a value could be an operator.
Document equal(std::string_view name, const TypedValue& value) {
  return {name, one("$eq", value)};
}

TypedValue date(std::int64_t milliseconds) {
  TypedValue value{Type::date, std::string(sizeof milliseconds, '\0')};
  store_i64(reinterpret_cast<std::uint8_t*>(value.bytes.data()), milliseconds);
  return value;
}

/// Of the value and what else there is; none may be there twice.
Document projection_of(const ReserveSpec& spec, std::initializer_list<std::string_view> others) {
  Document projection;
  for (const std::string_view other : others) projection.add(other, 1);
  if (std::ranges::find(others, spec.name) == others.end()) projection.add(spec.name, 1);
  return projection;
}

Document majority() {
  return {"level", "majority"};
}

/// [{$set: {at: {$max: [now, {$cond: [{$eq: [{$type: "$at"}, "date"]}, {$add: ["$at", 1]},
/// null]}]}}}]
Array later_date(std::int64_t now) {
  const Document is_date{"$eq", Array{Document{"$type", "$at"}, "date"}};
  const Document later{"$add", Array{"$at", 1}};
  const Array condition = Array().push(is_date).push(later).push(Type::null, Bytes());
  const TypedValue least = date(now);
  const Array latest =
      Array().push(least.type, as_bytes(least.bytes)).push(Document{"$cond", condition});
  return Array{Document{"$set", {"at", {"$max", latest}}}};
}

/// name: [item, …], with `make(item)` for each.
template <class Items, class Make>
Array array_of(const Items& items, const Make& make) {
  Array array;
  for (const auto& item : items) array.push(make(item));
  return array;
}

/// An unordered write of `statements`, which are named `kind`.
Document write_of(std::string_view command, const ReserveSpec& spec, std::string_view kind,
                  const Array& statements) {
  return {{command, spec.collection}, {"ordered", false}, {kind, statements}};
}

/// {$in: [value, …]}
template <class Items, class Value>
Document among(const Items& items, const Value& value_of) {
  Array values;
  for (const auto& item : items) {
    const TypedValue& value = value_of(item);
    values.push(value.type, as_bytes(value.bytes));
  }
  return {"$in", values};
}

void refuse_with(Reservation& item, ErrorCode code, std::string error) {
  item.state = Reservation::State::refused;
  item.code = static_cast<std::int32_t>(code);
  item.error = std::move(error);
}

/// find {name: {$in: [...]}}
Document find_command(const ReserveSpec& spec, Reserved items) {
  const auto value = [](const Reservation* item) -> auto& { return item->value; };
  return {{"find", spec.collection},
          {"filter", {spec.name, among(items, value)}},
          {"projection", projection_of(spec, {"parent_id"})}};
}

/// find {name: {$eq: value}}, which compares as the server does.
Document find_command(const ReserveSpec& spec, const Reservation& item) {
  return {{"find", spec.collection},
          {"filter", equal(spec.name, item.value)},
          {"projection", projection_of(spec, {"parent_id"})},
          {"limit", 1}};
}

/// update, for each reservation that exists for the same parent: sets the date to `now`, or later,
/// so that it differs from the one before.
Document refresh_command(const ReserveSpec& spec, Reserved items, std::int64_t now) {
  const Array later = later_date(now);
  return write_of("update", spec, "updates", array_of(items, [&](const Reservation* item) {
                    const Document its =
                        equal(spec.name, item->value).append(equal("parent_id", item->parent_id));
                    return Document{{"q", its}, {"u", later}};
                  }));
}

/// delete, where the date is the one that was written.
Document release_command(const ReserveSpec& spec, Reserved items) {
  return write_of("delete", spec, "deletes", array_of(items, [&](const Reservation* item) {
                    const Document its = equal(spec.name, item->value)
                                             .append(equal("parent_id", item->parent_id))
                                             .append(one("at", date(item->at)));
                    return Document{{"q", its}, {"limit", 1}};
                  }));
}

// Others may release reservations that are in the way, and make them again.
constexpr int kReserveRounds = 4;
// Requests wait two seconds at most.
constexpr std::chrono::milliseconds kTryAgainWithin{800};
constexpr std::chrono::milliseconds kTryAgainPause{40};
// One command each, of values that this process cannot compare itself.
constexpr std::size_t kMostExactLooks = 100;
constexpr std::size_t kMostReleased = 1000;

/// True if the write may be sent again. That changes nothing that it has already done.
bool may_try_again(std::chrono::nanoseconds took, const Reply& reply, const WriteOutcome& outcome) {
  if (took > kTryAgainWithin) return false;
  if (outcome.executed || reply.refused(ErrorCode::database_drop_pending)) return true;
  // If there was no server, libmongoc has already searched for long.
  return reply.kind == Reply::Kind::unreachable && !reply.was_not_sent();
}

bool has_transient_error(const WriteOutcome& outcome) {
  return std::ranges::any_of(outcome.errors, [](const ReservationError& error) {
    return is(error.code, CodeTrait::unavailable);
  });
}

/// True if all that the server could do has been done, for certain.
bool is_sure(const WriteOutcome& outcome) {
  return outcome.majority && !has_transient_error(outcome);
}

/// The key_of() the document that a reservation is for.
std::string parent_key(Bytes reservation) {
  const auto parent = bson::find(reservation, "parent_id");
  return parent ? key_of(value_of(*parent)) : std::string();
}

/// Returns an insert whose document every server refuses if it does not refuse the command.
Document refused_insert(const std::string& collection) {
  return {
      {"insert", collection}, {"documents", Array{Document{"_id", Array()}}}, {"ordered", false}};
}

/// A reservation that nobody has made, of a value that no document has.
Reservation of_nobody() {
  bson_oid_t id;
  bson_oid_init(&id, nullptr);
  const ids::TypedValue value{bson::Type::object_id,
                              std::string(as_text({id.bytes, sizeof id.bytes}))};
  return {.value = value, .parent_id = value};
}

Document find_nobody(const std::string& collection) {
  return {{"find", collection}, {"filter", {"_id", {"$in", Array()}}}, {"limit", 1}};
}

/// createIndexes {key: {field: 1}}
Document make_index_command(const std::string& collection, const std::string& field, bool unique) {
  Document index{{"key", {field, 1}}, {"name", field + "_1"}};
  if (unique) index.add("unique", true);
  return {{"createIndexes", collection}, {"indexes", Array{index}}};
}

/// Reservations that are being made or released.
struct Reserving {
  using Failure = std::optional<Error>;
  using Items = std::vector<Reservation*>;

  const ReserveSpec& spec;
  Client& client;
  const Clock& clock;
  std::int64_t at = 0;
  std::chrono::nanoseconds begun = clock.monotonic();

  Failure make(Items items) const {
    for (int round = 0; round < kReserveRounds && !items.empty(); ++round) {
      Items taken;
      for (Reserved rest(items); !rest.empty();) {
        const std::size_t count = fitting(spec, rest);
        if (auto failure = insert(rest.first(count), taken)) return failure;
        rest = rest.subspan(count);
      }
      items.clear();
      if (auto failure = judge(taken, items)) return failure;
    }
    for (Reservation* item : items) item->state = State::taken;
    return std::nullopt;
  }

  /// Appends those whose value is reserved already to `taken`. After a lost answer, the repeated
  /// command finds the reservations of the first attempt in this way: judge() sees that they are
  /// this document's own.
  Failure insert(Reserved items, Items& taken) const {
    const std::size_t others = taken.size();
    return send(insert_command(spec, items, at), [&](const WriteOutcome& outcome) {
      // An error that ends the command early leaves the rest out.
      const auto known = static_cast<std::uint64_t>(outcome.n) + outcome.errors.size();
      if (known != items.size() || has_transient_error(outcome)) return false;
      taken.resize(others);
      for (Reservation* item : items) {
        item->state = State::made;
        item->at = at;
      }
      for (const ReservationError& error : outcome.errors) {
        if (error.index >= items.size()) return false;
        Reservation& item = *items[error.index];
        if (error.code == ErrorCode::duplicate_key) {
          item.state = State::wanted;
          taken.push_back(&item);
        } else {
          refuse_with(item, ErrorCode{error.code}, error.text);
        }
      }
      return outcome.majority;
    });
  }

  /// Finds out for which documents the values are reserved. Those that are no longer reserved go to
  /// `again`.
  Failure judge(const Items& taken, Items& again) const {
    Items own;
    for (Reserved rest(taken); !rest.empty();) {
      const std::size_t count = fitting(spec, rest);
      if (auto failure = judge_some(rest.first(count), own, again)) return failure;
      rest = rest.subspan(count);
    }
    for (Reserved rest(own); !rest.empty();) {
      const std::size_t count = fitting(spec, rest, kMostReleased);
      if (auto failure = refresh(rest.first(count), again)) return failure;
      rest = rest.subspan(count);
    }
    return std::nullopt;
  }

  Failure judge_some(Reserved taken, Items& own, Items& again) const {
    std::unordered_map<std::string, std::string> parents;  // by the value; texts of key_of()
    const auto note = [&](Bytes document) {
      const auto value = bson::find(document, spec.name);
      if (value) parents.insert_or_assign(key_of(value_of(*value)), parent_key(document));
    };
    if (auto failure = read(find_command(spec, taken), note)) return failure;
    std::size_t exact_looks = 0;
    for (Reservation* item : taken) {
      const std::string key = key_of(item->value);
      auto found = parents.find(key);
      if (found == parents.end() && exact_looks++ < kMostExactLooks) {
        // The server may have found a value equal that has another key.
        const auto note_this = [&](Bytes document) { parents[key] = parent_key(document); };
        if (auto failure = read(find_command(spec, *item), note_this)) return failure;
        found = parents.find(key);
      }
      if (found == parents.end()) {
        again.push_back(item);
      } else if (found->second == key_of(item->parent_id)) {
        own.push_back(item);
      } else {
        item->state = State::taken;
      }
    }
    return std::nullopt;
  }

  /// Gives reservations of the same documents a new date, so that neither the sweeper nor the
  /// request that made them deletes them.
  Failure refresh(Reserved items, Items& again) const {
    const std::int64_t now = milliseconds_of(clock);
    bool are_all = false;
    const auto use = [&](const WriteOutcome& outcome) {
      are_all = outcome.n == static_cast<std::int64_t>(items.size());
      return is_sure(outcome);
    };
    if (auto failure = send(refresh_command(spec, items, now), use)) return failure;
    if (are_all) {
      for (Reservation* item : items) item->state = State::own;
    } else if (items.size() == 1) {
      again.push_back(items.front());
    } else {
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (auto failure = refresh(items.subspan(i, 1), again)) return failure;
      }
    }
    return std::nullopt;
  }

  Failure send(const Document& command, const std::function<bool(const WriteOutcome&)>& use) const {
    while (true) {
      const Reply reply = client.write(spec.db, command);
      const WriteOutcome outcome = outcome_of(reply);
      if (outcome.executed && use(outcome)) return std::nullopt;
      if (!may_try_again(clock.monotonic() - begun, reply, outcome)) {
        if (!outcome.executed) return after_error(client, reply, spec.db);
        return Error{Errc::unavailable, unreached(reply)};
      }
      std::this_thread::sleep_for(kTryAgainPause);
    }
  }

  Failure read(const Document& command, const std::function<void(Bytes)>& use) const {
    const Reply reply = client.read_all(spec.db, command, [&](Bytes document) {
      use(document);
      return true;
    });
    if (reply.ok()) return std::nullopt;
    return after_error(client, reply, spec.db);
  }
};

// ---- readiness ---------------------------------------------------------------------------------

/// Returns why the collection is unfit, as half a sentence such as "is a view"; empty: it is fit,
/// or the user may not see it.
std::string why_unfit(Client& client, const ReserveSpec& spec) {
  const Reply found =
      client.read_first(spec.db, {{"listCollections", 1}, {"filter", {"name", spec.collection}}});
  // Without the privilege, the server's answer to a write must do.
  if (!found.ok()) return {};
  const std::string_view type = bson::text_in(found.document.bytes(), "type");
  const auto options = bson::document_in(found.document.bytes(), "options");
  std::string why;
  if (!type.empty() && type != "collection") {
    why = type == "view" ? "is a view" : "is a time-series collection";
  } else if (options && bson::is_true(*options, "capped")) {
    why = "is capped: the server deletes its oldest documents";
  }
  return why.empty() ? why : why + ". Choose another one in `reserve`";
}

/// The commands of reservations. Changes nothing, but needs the privileges, a primary with a
/// majority, and a server that understands them.
Reply try_to_write(Client& client, const ReserveSpec& spec) {
  Reservation nobody = of_nobody();
  Reservation* const only = &nobody;
  const Reserved all(&only, 1);
  for (const Document& command : {refused_insert(spec.collection), refresh_command(spec, all, 0),
                                  release_command(spec, all)}) {
    Reply reply = client.write(spec.db, command);
    const WriteOutcome outcome = outcome_of(reply);
    if (!outcome.executed || !is_sure(outcome)) return reply;
  }
  return client.read(spec.db, find_command(spec, all));
}

std::optional<Error> look_at_parents(Client& client, const ReserveSpec& spec) {
  const Namespace ns = split_namespace(spec.parent_ns);
  const Reply reply = client.read(ns.db, find_nobody(ns.collection));
  if (reply.ok()) return std::nullopt;
  return after_read_error(client, reply, ns);
}

std::optional<Error> make_unique_index(Client& client, const ReserveSpec& spec,
                                       const std::vector<Index>& indexes) {
  const UniqueField field{spec.name};
  const Index* found = guard_among(indexes, field);
  if (found != nullptr && !found->building) return std::nullopt;
  if (found != nullptr) {
    return Error{Errc::unavailable, "the unique index on " + spec.name + " in " + spec.ns() +
                                        ", the collection of reservations, is being built"};
  }
  const Reply reply = client.write(spec.db, make_index_command(spec.collection, spec.name, true));
  if (reply.ok()) return std::nullopt;
  if (reply.kind != Reply::Kind::refused) return after_error(client, reply, spec.db);
  const std::string why = reply.code == ErrorCode::duplicate_key
                              ? "several reservations have the same value"
                              : "the server answers with " + error_text(reply);
  const auto advice = std::make_shared<const Reason>(
      Reason{"no unique index guards the collection of reservations, " + spec.ns() +
                 ", and the proxy cannot make it (" + why + ")",
             "; make it with ",
             create_index_command({spec.db, spec.collection}, field,
                                  {.name = free_name(indexes, field)})});
  return Error{Errc::exhausted, advice->whole(), advice};
}

std::optional<Error> look_at_indexes(Client& client, const ReserveSpec& spec,
                                     ReservationCollection::Missing missing) {
  const bool needs_one = spec.layout == ids::ReserveSpec::Layout::field;
  std::vector<Index> indexes;
  const Reply reply = list_indexes(client, {spec.db, spec.collection}, indexes);
  const bool listed = reply.ok() || reply.refused(ErrorCode::namespace_not_found);
  if (!listed && needs_one) return after_error(client, reply, spec.db);
  if (!listed || missing == ReservationCollection::Missing::assume) return std::nullopt;
  if (needs_one) {
    if (auto failure = make_unique_index(client, spec, indexes)) return failure;
  }
  // Without it the sweeper reads the whole collection.
  if (!has_dates(indexes))
    (void)client.write(spec.db, make_index_command(spec.collection, "at", false));
  return std::nullopt;
}

}  // namespace

bool has_dates(std::span<const Index> indexes) {
  return std::ranges::any_of(
      indexes, [](const Index& index) { return can_read(index, "at", ValueType::other); });
}

std::int64_t milliseconds_of(const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock.wall()).count();
}

ReservationCollection::ReservationCollection(ids::ReserveSpec spec, Missing missing,
                                             const Clock& clock, StoreMetrics& metrics)
    : spec_(std::move(spec)), missing_(missing), clock_(clock), metrics_(metrics) {}

// ---- reservations ------------------------------------------------------------------------------

std::optional<Error> ReservationCollection::make(Client& client,
                                                 std::vector<Reservation*> items) const {
  std::erase_if(items,
                [](Reservation* item) { return item->state != State::wanted || refuse(*item); });
  auto failure = Reserving{spec_, client, clock_, milliseconds_of(clock_)}.make(items);
  for (const Reservation* item : items) {
    if (item->state == State::made) ++metrics_.reservations_made;
    if (item->state == State::taken) ++metrics_.reservations_taken;
  }
  return failure;
}

std::optional<Error> ReservationCollection::release(Client& client, Reserved made) const {
  const Reserving run{spec_, client, clock_};
  while (!made.empty()) {
    const std::size_t count = fitting(spec_, made, kMostReleased);
    std::int64_t deleted = 0;
    const auto use = [&](const WriteOutcome& outcome) {
      deleted += outcome.n;
      return is_sure(outcome);
    };
    auto failure = run.send(release_command(spec_, made.first(count)), use);
    metrics_.reservations_released += static_cast<std::uint64_t>(deleted);
    if (failure) return failure;
    made = made.subspan(count);
  }
  return std::nullopt;
}

std::optional<Error> ReservationCollection::prepare(Client& client) const {
  if (std::string why = why_unfit(client, spec_); !why.empty()) {
    return Error{Errc::exhausted,
                 "the collection of reservations, " + spec_.ns() + ", " + std::move(why)};
  }
  if (const Reply reply = try_to_write(client, spec_); !reply.ok())
    return after_error(client, reply, spec_.db);
  if (auto failure = look_at_parents(client, spec_)) return failure;
  return look_at_indexes(client, spec_, missing_);
}

// ---- values and commands -----------------------------------------------------------------------

std::size_t bytes_of(const Reservation& item) {
  return item.value.bytes.size() + item.parent_id.bytes.size() + kFixedBytes;
}

std::size_t fitting(const ReserveSpec& spec, Reserved items, std::size_t most) {
  const std::size_t of_all = kFixedErrorBytes + spec.ns().size() + 3 * spec.name.size();
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (const Reservation* item : items) {
    const std::size_t value = item->value.bytes.size();
    bytes += std::max(bytes_of(*item), of_all + value + std::min(3 * value, kMostErrorText));
    if (count == most || (count > 0 && bytes > kMostCommandBytes)) break;
    ++count;
  }
  return count;
}

bool refuse(Reservation& item) {
  const Type type = item.value.type;
  if (type == Type::array || type == Type::regex || type == Type::undefined) {
    refuse_with(item, ErrorCode::bad_value,
                "an array, a regular expression or undefined cannot be reserved");
    return true;
  }
  if (bytes_of(item) <= kMostCommandBytes) return false;
  refuse_with(item, ErrorCode::bson_object_too_large,
              "the value and the document's _id are too large to reserve");
  return true;
}

std::string key_of(const TypedValue& value) {
  const bool is_decimal = value.type == Type::decimal128;
  const auto number = ids::integer_of({value.type, {}, as_bytes(value.bytes)});
  if (number && !is_decimal) return "i" + std::to_string(*number);
  return std::to_string(static_cast<int>(value.type)) + ":" + value.bytes;
}

TypedValue value_of(const bson::Element& element) {
  return {element.type, std::string(as_text(element.value))};
}

Document insert_command(const ReserveSpec& spec, Reserved items, std::int64_t at) {
  const TypedValue made_at = date(at);
  return write_of("insert", spec, "documents", array_of(items, [&](const Reservation* item) {
                    return one(spec.name, item->value)
                        .append(one("parent_id", item->parent_id))
                        .append(one("at", made_at));
                  }));
}

Document old_command(const ReserveSpec& spec, std::int64_t from, std::int64_t until, Order order) {
  constexpr std::int32_t kOldPage = 1000;
  const Document filter{{"at", {one("$gte", date(from)), one("$lt", date(until))}},
                        // One without it was not made by this recipe.
                        {"parent_id", {"$exists", true}}};
  Document command{{"find", spec.collection},
                   {"filter", filter},
                   {"projection", projection_of(spec, {"_id", "parent_id", "at"})}};
  if (order == Order::by_date) command.append({"sort", {"at", 1}});
  return {command, {"batchSize", kOldPage}, {"readConcern", majority()}};
}

Document parents_command(const ReserveSpec& spec, std::span<const OldReservation> items) {
  const auto parent = [](const OldReservation& item) -> auto& { return item.parent_id; };
  return {{"find", split_namespace(spec.parent_ns).collection},
          {"filter", {"_id", among(items, parent)}},
          {"projection", {{"_id", 1}, {spec.parent_field, 1}}},
          {"readConcern", majority()}};
}

Document parent_command(const ReserveSpec& spec, const OldReservation& item) {
  return {{"find", split_namespace(spec.parent_ns).collection},
          {"filter", equal("_id", item.parent_id).append(equal(spec.parent_field, item.value))},
          {"projection", {"_id", 1}},
          {"limit", 1},
          {"readConcern", majority()}};
}

Document any_parent_command(const ReserveSpec& spec) {
  return {{"find", split_namespace(spec.parent_ns).collection},
          {"projection", {"_id", 1}},
          {"limit", 1},
          {"readConcern", majority()}};
}

Document sweep_command(const ReserveSpec& spec, std::span<const OldReservation> items) {
  return write_of("delete", spec, "deletes", array_of(items, [&](const OldReservation& item) {
                    Document its = equal("_id", item.id);
                    // The key of a collection that is sharded by it.
                    if (spec.name != "_id") its.append(equal(spec.name, item.value));
                    its.append(equal("parent_id", item.parent_id)).append(one("at", date(item.at)));
                    return Document{{"q", its}, {"limit", 1}};
                  }));
}

WriteOutcome outcome_of(const mongo::Reply& reply) {
  WriteOutcome outcome;
  const Bytes document = reply.document.bytes();
  outcome.executed = bson::integer_in(document, "ok") == 1;
  if (!outcome.executed) return outcome;
  outcome.n = bson::integer_in(document, "n");
  outcome.majority = !bson::find(document, "writeConcernError");
  for (const Bytes error : bson::documents_in(document, "writeErrors")) {
    outcome.errors.push_back({static_cast<std::size_t>(bson::integer_in(error, "index")),
                              static_cast<std::int32_t>(bson::integer_in(error, "code")),
                              std::string(bson::text_in(error, "errmsg"))});
  }
  return outcome;
}

}  // namespace idproxy::id_store
