#include "id_store/counter_commands.hpp"

#include "idproxy/base/printable.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::id_store {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

namespace {

void add_key(Document& to, std::string_view field, const ids::CounterPlace& place) {
  if (place.has_document_key()) {
    to.add(field, Document(as_bytes(place.key)));
  } else {
    to.add(field, place.key);
  }
}

}  // namespace

std::string key_text(const ids::CounterPlace& place) {
  if (place.is_scope()) return mongo::json_of(identity_of(place).bytes());
  return place.has_document_key() ? mongo::json_of(as_bytes(place.key)) : place.key;
}

Document identity_of(const ids::CounterPlace& place) {
  Document identity;
  if (!place.is_scope()) add_key(identity, place.key_field, place);
  if (!place.filter.empty()) identity.append(Document(as_bytes(place.filter)));
  if (place.is_scope()) add_key(identity, place.key_field, place);
  return identity;
}

std::optional<Document> make_index_of(const ids::CounterPlace& place) {
  if (place.scope_field.empty()) return std::nullopt;
  const Document index =
      Document()
          .add("key", Document().add(place.name_field, 1).add(place.scope_field, 1))
          .add("name", place.name_field + "_1_" + place.scope_field + "_1")
          .add("unique", true);
  return Document().add("createIndexes", place.collection).add("indexes", Array().push(index));
}

Document new_counter(const ids::CounterPlace& place, std::int64_t value) {
  const Document identity = identity_of(place);
  Document created;
  // Only _id is certain to have a unique index: that of make_index_of() may be refused.
  if (!bson::find(identity.bytes(), "_id")) {
    if (place.filter.empty()) {
      add_key(created, "_id", place);
    } else {
      created.add("_id", identity);
    }
  }
  return created.append(identity).add(place.value_field, value);
}

Document new_range(const ids::CounterPlace& place, const ids::RangeState& range) {
  return Document()
      .add(place.key_field, ids::range_key(range.number))
      .add(place.value_field, range.next)
      .add(place.max_field, range.last)
      .add("NOTES", "mongo-idproxy: the next number of this range, and the last one");
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

namespace {

Document earlier_mark_id(const ids::CounterPlace& place) {
  return Document().add("collection", place.collection).add("query", identity_of(place));
}

Document mark_id(const ids::CounterPlace& place) {
  Document id = earlier_mark_id(place);
  if (place.value_field != kUnnamedInMarks) id.add("field", place.value_field);
  return id;
}

}  // namespace

Document find_mark(const ids::CounterPlace& place, bool document_exists) {
  Array ids;
  ids.push(mark_id(place));
  if (!document_exists) ids.push(earlier_mark_id(place));
  const Document filter = Document().add("_id", Document().add("$in", ids));
  return Document().add("find", kMarks).add("filter", filter).add("limit", 1);
}

Document write_mark(const ids::CounterPlace& place) {
  const Document update =
      Document()
          .add("q", Document().add("_id", mark_id(place)))
          .add("u", Document().add("$setOnInsert", Document().add("used", true)))
          .add("upsert", true);
  return Document().add("update", kMarks).add("updates", Array().push(update));
}

std::optional<Bytes> value_of(const Reply& reply) {
  const auto value = bson::find(reply.document.bytes(), "value");
  if (!value || value->type != bson::Type::document) return std::nullopt;
  return value->value;
}

std::string code_name(const Reply& reply) {
  const auto name = bson::find(reply.document.bytes(), "codeName");
  const bool has_name = name && name->type == bson::Type::string;
  return std::to_string(reply.code) + (has_name ? " " + std::string(name->text()) : "");
}

Document set_value(const std::string& field, std::int64_t value) {
  return Document().add("$set", Document().add(field, value));
}

Array set_sum(const std::string& field, const Document& base, std::int64_t increment) {
  const Document sum = Document().add("$add", Array().push(base).push(increment));
  return Array().push(Document().add("$set", Document().add(field, sum)));
}

Document to_long(const std::string& field) {
  return Document().add("$toLong", "$" + field);
}

}  // namespace idproxy::id_store
