#include "id_store/field_places.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "id_store/reply_reasons.hpp"
#include "idproxy/base/glob.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

using ids::CounterField;
using mongo::Client;
using mongo::Document;
using mongo::Reply;
using Access = FieldPlace::Access;

constexpr std::chrono::seconds kLookLimit{5};

/// The best index through which to read the field: a unique one with a collation, which forbids
/// most, as it does; else the scope in front, no condition if possible, or one that holds all
/// types, and few key fields, and byte by byte.
const Index* best_of(const std::vector<Index>& indexes, const UniqueField& field) {
  const std::vector<std::string>& scope = field.repeats.scope;
  // One that begins with the scope has nothing else in between.
  const auto costs = [&](const Index& index) {
    const auto its = std::ranges::find(index.keys, field.name, &Index::Key::field);
    const auto scoped = static_cast<std::size_t>(its - index.keys.begin());
    const bool is_collated = !index.collation.empty();
    const bool compares = !scope.empty() || field.type == ValueType::string;
    const bool forbids_most = is_collated && compares && guards(index, field);
    return std::tuple(!forbids_most, scope.size() - scoped, is_collated, index.partial.kind,
                      index.keys.size());
  };
  const Index* best = nullptr;
  for (const Index& index : indexes) {
    if (!can_read(index, field.name, field.type, scope)) continue;
    if (best == nullptr || costs(index) < costs(*best)) best = &index;
  }
  return best;
}

ids::Result<bool> is_empty(Client& client, const Namespace& ns) {
  const Document command{
      {"find", ns.collection},
      {"projection", {"_id", 1}},
      {"limit", 1},
      {"maxTimeMS", std::int64_t{std::chrono::milliseconds(kLookLimit).count()}}};
  bool empty = true;  // a document without an _id has nothing to show
  const Reply reply = client.read_all(ns.db, command, [&](Bytes) { return empty = false; });
  if (!reply.ok()) return after_read_error(client, reply, ns);
  return empty;
}

ids::Result<void> add_place(Client& client, const CounterField& field, const Namespace& ns,
                            FieldPlaces& places) {
  FieldPlace place{&field, ns};
  const UniqueField unique = unique_field(field);
  place.is_unique = field.field == "_id";
  if (place.is_unique && unique.type != ValueType::string) {
    places.all.push_back(std::move(place));
    return {};
  }
  std::vector<Index> indexes;
  places.indexes += ns.text() + '\0';
  const Reply reply = client.list_indexes(ns.db, ns.collection, [&](Bytes listed) {
    indexes.push_back(index_of(listed));
    places.indexes += as_text(listed);
    return true;
  });
  // _id can be read in any case.
  if (!reply.ok() && !reply.refused(ErrorCode::namespace_not_found) &&
      !(place.is_unique && reply.kind == Reply::Kind::refused))
    return after_read_error(client, reply, ns);
  if (place.is_unique) {
    const auto its = std::ranges::find(indexes, kIndexOfId, &Index::name);
    if (its != indexes.end()) place.collation = its->collation;
    places.all.push_back(std::move(place));
    return {};
  }
  place.is_unique = std::ranges::any_of(
      indexes, [&](const Index& index) { return !index.building && guards(index, unique); });
  if (const Index* index = best_of(indexes, unique)) {
    place.hint = index->name;
    place.condition = index->partial.condition;
    place.collation = index->collation;
  } else {
    const auto empty = is_empty(client, ns);
    if (!empty) return empty.error();
    place.access = *empty ? Access::nothing : Access::scan;
  }
  places.all.push_back(std::move(place));
  return {};
}

}  // namespace

std::string text_of(const FieldPlace& place) {
  return place.field->field + " in " + place.ns.text();
}

UniqueField unique_field(const CounterField& field) {
  constexpr ValueType kTypes[] = {ValueType::int64, ValueType::int32, ValueType::string};
  const auto output = static_cast<std::size_t>(field.format.output);
  UniqueField unique{field.field, kTypes[output], {{}, field.repeats}};
  if (field.scope.empty()) return unique;
  for (const bson::Element& element : bson::Elements(as_bytes(field.scope)))
    unique.repeats.scope.emplace_back(element.key);
  return unique;
}

Document filter_in(const FieldPlace& place, const Document& filter) {
  return {Document(as_bytes(place.field->scope)),
          {place.field->field, {filter, Document(as_bytes(place.condition))}}};
}

Document collation_in(const FieldPlace& place) {
  const bool is_text = place.field->format.output == ids::NumberFormat::Output::string;
  if (!is_text && place.field->scope.empty()) return {};
  return place.collation.empty() ? mongo::simple_collation() : Document(as_bytes(place.collation));
}

Document find_in(const FieldPlace& place, const Document& filter, std::chrono::milliseconds limit) {
  const std::string& field = place.field->field;
  Document projection{"_id", field == "_id" ? 1 : 0};
  if (field != "_id") projection.add(field, 1);
  Document command{{"find", place.ns.collection},
                   {"filter", filter_in(place, filter)},
                   {"projection", projection},
                   {"maxTimeMS", std::int64_t{limit.count()}}};
  if (!place.hint.empty()) command.add("hint", place.hint);
  if (const Document its = collation_in(place); !its.empty()) command.add("collation", its);
  return command;
}

bool can_be_guarded(std::span<const CounterField> fields) {
  return fields.size() == 1 && !has_wildcards(fields.front().ns);
}

ids::Result<FieldPlaces> find_places(Client& client, const ids::CounterPlace& counter,
                                     std::span<const CounterField> fields) {
  FieldPlaces places;
  for (const CounterField& field : fields) {
    if (field.repeats) continue;
    std::vector<Namespace> found;
    const Reply reply = find_namespaces(client, {field.ns, field.except}, counter, found);
    if (!reply.ok()) return after_read_error(client, reply, split_namespace(field.ns));
    for (const Namespace& ns : found) {
      const auto added = add_place(client, field, ns, places);
      if (!added) return added.error();
    }
  }
  return places;
}

}  // namespace idproxy::id_store
