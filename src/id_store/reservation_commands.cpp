#include "id_store/reservation_commands.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::id_store {
namespace {

using bson::Type;
using ids::Reservation;
using ids::ReserveSpec;
using ids::TypedValue;
using mongo::Array;
using mongo::Document;

// Of 16 MiB, for documents or errors.
constexpr std::size_t kMostCommandBytes = std::size_t{12} * 1024 * 1024;
// The size of a reservation without its value and parent_id: names, date, the statement around it.
constexpr std::size_t kFixedBytes = 96;
// The size of a duplicate key error without the namespace, the field (three times) and the value.
// The value is repeated in the text, but cut there (observed, 6.0.5): kMostErrorText.
constexpr std::size_t kFixedErrorBytes = 180;
constexpr std::size_t kMostErrorText = 400;
// The server's code and message for documents that are too large.
constexpr std::int32_t kObjectTooLarge = 10334;

/// {name: value}
Document one(std::string_view name, const TypedValue& value) {
  return Document().add(name, value.type, as_bytes(value.bytes));
}

/// {name: {$eq: value}}: alone, a value could be an operator.
Document equal(std::string_view name, const TypedValue& value) {
  return Document().add(name, one("$eq", value));
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
  return Document().add("level", "majority");
}

/// [{$set: {at: {$max: [now, {$cond: [{$eq: [{$type: "$at"}, "date"]}, {$add: ["$at", 1]},
/// null]}]}}}]
Array later_date(std::int64_t now) {
  const Document is_date =
      Document().add("$eq", Array().push(Document().add("$type", "$at")).push("date"));
  const Document later = Document().add("$add", Array().push("$at").push(1));
  const Array condition = Array().push(is_date).push(later).push(Type::null, Bytes());
  const TypedValue least = date(now);
  const Array latest =
      Array().push(least.type, as_bytes(least.bytes)).push(Document().add("$cond", condition));
  const Document set = Document().add("at", Document().add("$max", latest));
  return Array().push(Document().add("$set", set));
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
  Document write;
  write.add(command, spec.collection).add("ordered", false).add(kind, statements);
  return write;
}

/// {$in: [value, …]}
template <class Items, class Value>
Document among(const Items& items, const Value& value_of) {
  Array values;
  for (const auto& item : items) {
    const TypedValue& value = value_of(item);
    values.push(value.type, as_bytes(value.bytes));
  }
  return Document().add("$in", values);
}

std::optional<std::int64_t> exact_integer(const TypedValue& value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(value.bytes.data());
  if (value.type == Type::int32 && value.bytes.size() == 4) return load_i32(bytes);
  if (value.type == Type::int64 && value.bytes.size() == 8) return load_i64(bytes);
  if (value.type != Type::number_double || value.bytes.size() != 8) return std::nullopt;
  const auto number = std::bit_cast<double>(load_i64(bytes));
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  const bool fits = number >= -kLimit && number < kLimit && std::trunc(number) == number;
  return fits ? std::optional(static_cast<std::int64_t>(number)) : std::nullopt;
}

void refuse_with(Reservation& item, std::int32_t code, std::string error) {
  item.state = Reservation::State::refused;
  item.code = code;
  item.error = std::move(error);
}

}  // namespace

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
  switch (item.value.type) {
    case Type::array:
    case Type::regex:
    case Type::undefined:
      refuse_with(item, mongo::kBadValue,
                  "an array, a regular expression or undefined cannot be reserved");
      return true;
    default:
      break;
  }
  if (bytes_of(item) <= kMostCommandBytes) return false;
  refuse_with(item, kObjectTooLarge, "the value and the document's _id are too large to reserve");
  return true;
}

std::string key_of(const TypedValue& value) {
  if (const auto number = exact_integer(value)) return "i" + std::to_string(*number);
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

Document find_command(const ReserveSpec& spec, Reserved items) {
  const auto value = [](const Reservation* item) -> auto& { return item->value; };
  return Document()
      .add("find", spec.collection)
      .add("filter", Document().add(spec.name, among(items, value)))
      .add("projection", projection_of(spec, {"parent_id"}));
}

Document find_command(const ReserveSpec& spec, const Reservation& item) {
  return Document()
      .add("find", spec.collection)
      .add("filter", equal(spec.name, item.value))
      .add("projection", projection_of(spec, {"parent_id"}))
      .add("limit", 1);
}

Document refresh_command(const ReserveSpec& spec, Reserved items, std::int64_t now) {
  const Array later = later_date(now);
  return write_of("update", spec, "updates", array_of(items, [&](const Reservation* item) {
                    const Document its =
                        equal(spec.name, item->value).append(equal("parent_id", item->parent_id));
                    return Document().add("q", its).add("u", later);
                  }));
}

Document release_command(const ReserveSpec& spec, Reserved items) {
  return write_of("delete", spec, "deletes", array_of(items, [&](const Reservation* item) {
                    const Document its = equal(spec.name, item->value)
                                             .append(equal("parent_id", item->parent_id))
                                             .append(one("at", date(item->at)));
                    return Document().add("q", its).add("limit", 1);
                  }));
}

Document old_command(const ReserveSpec& spec, std::int64_t from, std::int64_t until, Order order) {
  constexpr std::int32_t kOldPage = 1000;
  const Document filter = Document()
                              .add("at", one("$gte", date(from)).append(one("$lt", date(until))))
                              // One without it was not made by this recipe.
                              .add("parent_id", Document().add("$exists", true));
  Document command;
  command.add("find", spec.collection).add("filter", filter);
  command.add("projection", projection_of(spec, {"_id", "parent_id", "at"}));
  if (order == Order::by_date) command.add("sort", Document().add("at", 1));
  return command.add("batchSize", kOldPage).add("readConcern", majority());
}

Document parents_command(const ReserveSpec& spec, std::span<const OldReservation> items) {
  const auto parent = [](const OldReservation& item) -> auto& { return item.parent_id; };
  return Document()
      .add("find", split_namespace(spec.parent_ns).collection)
      .add("filter", Document().add("_id", among(items, parent)))
      .add("projection", Document().add("_id", 1).add(spec.parent_field, 1))
      .add("readConcern", majority());
}

Document parent_command(const ReserveSpec& spec, const OldReservation& item) {
  return Document()
      .add("find", split_namespace(spec.parent_ns).collection)
      .add("filter", equal("_id", item.parent_id).append(equal(spec.parent_field, item.value)))
      .add("projection", Document().add("_id", 1))
      .add("limit", 1)
      .add("readConcern", majority());
}

Document sweep_command(const ReserveSpec& spec, std::span<const OldReservation> items) {
  return write_of("delete", spec, "deletes", array_of(items, [&](const OldReservation& item) {
                    Document its = equal("_id", item.id);
                    // The key of a collection that is sharded by it.
                    if (spec.name != "_id") its.append(equal(spec.name, item.value));
                    its.append(equal("parent_id", item.parent_id)).append(one("at", date(item.at)));
                    return Document().add("q", its).add("limit", 1);
                  }));
}

WriteOutcome outcome_of(const mongo::Reply& reply) {
  WriteOutcome outcome;
  const Bytes document = reply.document.bytes();
  outcome.executed = mongo::integer_in(document, "ok") == 1;
  if (!outcome.executed) return outcome;
  outcome.n = mongo::integer_in(document, "n");
  outcome.majority = !bson::find(document, "writeConcernError");
  for (const Bytes error : mongo::documents_in(document, "writeErrors")) {
    outcome.errors.push_back({static_cast<std::size_t>(mongo::integer_in(error, "index")),
                              static_cast<std::int32_t>(mongo::integer_in(error, "code")),
                              std::string(mongo::text_in(error, "errmsg"))});
  }
  return outcome;
}

}  // namespace idproxy::id_store
