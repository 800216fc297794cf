#include "id_store/counter_commands.hpp"

#include "idproxy/base/printable.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::id_store {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

namespace {

/// {field: key}
Document key_in(std::string_view field, const ids::CounterPlace& place) {
  if (place.has_document_key()) return {field, Document(as_bytes(place.key))};
  return {field, place.key};
}

Document earlier_mark_id(const ids::CounterPlace& place) {
  return {{"collection", place.collection}, {"query", identity_of(place)}};
}

Document mark_id(const ids::CounterPlace& place) {
  Document id = earlier_mark_id(place);
  if (place.value_field != kUnnamedInMarks) id.add("field", place.value_field);
  return id;
}

}  // namespace

std::string key_text(const ids::CounterPlace& place) {
  if (place.is_scope()) return mongo::json_of(identity_of(place).bytes());
  return place.has_document_key() ? mongo::json_of(as_bytes(place.key)) : place.key;
}

Document identity_of(const ids::CounterPlace& place) {
  const Document key = key_in(place.key_field, place);
  const Document filter(as_bytes(place.filter));
  return place.is_scope() ? Document{filter, key} : Document{key, filter};
}

std::optional<Document> make_index_of(const ids::CounterPlace& place) {
  if (place.scope_field.empty()) return std::nullopt;
  const Document index{{"key", {{place.name_field, 1}, {place.scope_field, 1}}},
                       {"name", place.name_field + "_1_" + place.scope_field + "_1"},
                       {"unique", true}};
  return Document{{"createIndexes", place.collection}, {"indexes", Array{index}}};
}

Document seal_of(const ids::CounterSpec& spec) {
  if (spec.seal.fpe.empty()) return {};
  return {{"fpe", spec.seal.fpe}, {"space", spec.seal.space}};
}

Document new_counter(const ids::CounterSpec& spec, std::int64_t value) {
  const ids::CounterPlace& place = spec.place;
  const Document identity = identity_of(place);
  Document created;
  // Only _id is certain to have a unique index: that of make_index_of() may be refused.
  if (!bson::find(identity.bytes(), "_id")) {
    created = place.filter.empty() ? key_in("_id", place) : Document{"_id", identity};
  }
  return {created, identity, {place.value_field, value}, seal_of(spec)};
}

Document new_range(const ids::CounterPlace& place, const ids::RangeState& range) {
  return {{place.key_field, ids::range_key(range.number)},
          {place.value_field, range.next},
          {place.max_field, range.last},
          {"NOTES", "mongo-idproxy: the next number of this range, and the last one"}};
}

Commands index_by_hand(const ids::CounterPlace& place) {
  const std::string key = in_quotes(place.name_field) + ": 1, " + in_quotes(place.scope_field);
  return Commands().mongosh(in_mongosh(Namespace{place.db, place.collection}) + ".createIndex({" +
                                key + ": 1}, {unique: true})",
                            {place.db, place.collection, place.name_field, place.scope_field});
}

Commands set_by_hand(const ids::CounterPlace& place, std::int64_t value) {
  const std::string identity = mongo::value_in_mongosh(identity_of(place).bytes());
  // A scope's values are a stranger's words.
  if (mongo::json_of(identity_of(place).bytes()).find_first_of("'`\\") != std::string::npos) {
    return {};
  }
  const std::string number = "NumberLong(\"" + std::to_string(value) + "\")";
  return Commands().mongosh(in_mongosh(Namespace{place.db, place.collection}) + ".updateOne(" +
                                identity + ", {$set: {" + in_quotes(place.value_field) + ": " +
                                number + "}}, {upsert: true})",
                            {place.db, place.collection, place.value_field});
}

Commands grant(const std::string& user, const std::string& source, const std::string& role,
               const std::string& db) {
  return Commands().mongosh(in_mongosh(source) + ".grantRolesToUser(" + in_quotes(user) +
                                ", [{role: " + in_quotes(role) + ", db: " + in_quotes(db) + "}])",
                            {source, user, role, db});
}

Document find_mark(const ids::CounterPlace& place, bool document_exists) {
  Array ids{mark_id(place)};
  if (!document_exists) ids.push(earlier_mark_id(place));
  return {{"find", kMarks}, {"filter", {"_id", {"$in", ids}}}, {"limit", 1}};
}

Document write_mark(const ids::CounterPlace& place) {
  const Document update{
      {"q", {"_id", mark_id(place)}}, {"u", {"$setOnInsert", {"used", true}}}, {"upsert", true}};
  return {{"update", kMarks}, {"updates", Array{update}}};
}

std::optional<Bytes> value_of(const Reply& reply) {
  return bson::document_in(reply.document.bytes(), "value");
}

std::string code_name(const Reply& reply) {
  const auto name = bson::find(reply.document.bytes(), "codeName", bson::Type::string);
  return std::to_string(reply.code) + (name ? " " + std::string(name->text()) : "");
}

Document set_value(const std::string& field, std::int64_t value) {
  return {"$set", {field, value}};
}

Array set_sum(const std::string& field, const Document& base, std::int64_t increment) {
  return Array{Document{"$set", {field, {"$add", Array{base, increment}}}}};
}

Document to_long(const std::string& field) {
  return {"$toLong", "$" + field};
}

}  // namespace idproxy::id_store
