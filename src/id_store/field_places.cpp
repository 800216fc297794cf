#include "id_store/field_places.hpp"

#include <string_view>

#include "id_store/inspector_collections.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

using ids::CounterField;
using mongo::Client;
using mongo::Document;
using mongo::Reply;

constexpr std::int32_t kMaxTimeMs = 5000;

/// True for an ascending or descending index of all documents whose first field is `field`. For
/// strings, it must have no collation, which would change their order. False while the index is
/// being built: its key then stands elsewhere (catalog_requests.cpp).
bool begins_with(Bytes index, const CounterField& field) {
  const auto key = bson::find(index, "key");
  if (!key || key->type != bson::Type::document) return false;
  const auto first = bson::Elements(key->value).next();
  const bool is_text = field.format.output == ids::NumberFormat::Output::string;
  return first && first->key == field.field && first->type != bson::Type::string &&
         !mongo::is_true(index, "hidden") && !bson::find(index, "partialFilterExpression") &&
         (!is_text || !bson::find(index, "collation"));
}

bool has_one_field(Bytes index) {
  bson::Elements elements(bson::find(index, "key")->value);
  return elements.next() && !elements.next();
}

/// Indexes that begin with a field.
struct Indexed {
  bool is_indexed = false;
  bool is_unique = false;
};

Outcome<Indexed> indexed(Client& client, const CounterField& field, const Namespace& ns) {
  if (field.field == "_id") return Indexed{true, true};
  Indexed result;
  const Reply reply = client.list_indexes(ns.db, ns.collection, [&](Bytes index) {
    if (!begins_with(index, field)) return true;
    result.is_indexed = true;
    result.is_unique =
        result.is_unique || (mongo::is_true(index, "unique") && has_one_field(index));
    return true;
  });
  if (!reply.ok() && !reply.refused(mongo::kNamespaceNotFound)) return unreadable(ns, reply);
  return result;
}

Outcome<bool> is_empty(Client& client, const Namespace& ns) {
  bool empty = true;
  const Document all = Document().add("$exists", true);
  const Reply reply = client.read_all(ns.db, find_in(ns, "_id", all).add("limit", 1),
                                      [&](Bytes) { return empty = false; });
  if (!reply.ok()) return unreadable(ns, reply);
  return empty;
}

Outcome<void> add_place(Client& client, const CounterField& field, const Namespace& ns,
                        std::vector<FieldPlace>& places) {
  const auto found = indexed(client, field, ns);
  if (!found) return found.error();
  if (!found->is_indexed) {
    const auto empty = is_empty(client, ns);
    if (!empty) return empty.error();
    if (!*empty) {
      return exhausted("the values of " + field.field + " in " + ns.text() +
                       " cannot be read without an index: " +
                       create_index_command(ns.db, ns.collection, field.field));
    }
  }
  places.push_back({&field, ns, found->is_unique, !found->is_indexed});
  return {};
}

}  // namespace

ids::CounterReply unreadable(const Namespace& ns, const Reply& reply) {
  if (reply.kind != Reply::Kind::refused) return failed("the id store does not answer");
  if (reply.code == mongo::kUnauthorized) {
    return exhausted("the id store's user may not read " + ns.text() +
                     ": grant it find, listCollections and listIndexes there");
  }
  return failed("the id store answered with error " + std::to_string(reply.code) +
                " when reading " + ns.text());
}

Document find_in(const Namespace& ns, std::string_view field, const Document& filter) {
  Document projection;
  projection.add("_id", field == "_id" ? 1 : 0);
  if (field != "_id") projection.add(field, 1);
  return Document()
      .add("find", ns.collection)
      .add("filter", Document().add(field, filter))
      .add("projection", projection)
      .add("maxTimeMS", kMaxTimeMs);
}

bool can_be_guarded(std::span<const CounterField> fields) {
  return fields.size() == 1 && !is_glob(fields.front().ns);
}

Outcome<std::vector<FieldPlace>> find_places(Client& client, const ids::CounterPlace& counter,
                                             std::span<const CounterField> fields) {
  std::vector<FieldPlace> places;
  for (const CounterField& field : fields) {
    std::vector<Namespace> found;
    const Reply reply = find_namespaces(client, field.ns, counter, found);
    if (!reply.ok()) return unreadable(split_namespace(field.ns), reply);
    for (const Namespace& ns : found) {
      const auto added = add_place(client, field, ns, places);
      if (!added) return added.error();
    }
  }
  return places;
}

}  // namespace idproxy::id_store
