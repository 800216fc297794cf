#include "id_store/index_requests.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "idproxy/base/server_release.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

// For each of the two questions that may read many documents.
constexpr std::int32_t kQuestionMs = 1000;
// If there are fewer documents and all have the field, that says nothing about the documents that
// upserts will store.
constexpr std::int32_t kTelling = 1000;

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// The fields of the index's key, in its order.
std::vector<std::string> key_fields(const UniqueField& field) {
  std::vector<std::string> fields = field.repeats.scope;
  fields.push_back(field.name);
  return fields;
}

/// The server's default name: "a_1_b_1", or "a_1_b_-1".
std::string default_name(const UniqueField& field, bool descending) {
  std::string name;
  for (const std::string& each : field.repeats.scope) name += each + "_1_";
  return name + field.name + (descending ? "_-1" : "_1");
}

/// True if one of the indexes has exactly this key, ascending. Servers before 5.0 take no second
/// index with the same key, whatever its other options are (observed, 4.4.2).
bool has_ascending_key(std::span<const Index> indexes, const UniqueField& field) {
  return std::ranges::any_of(indexes, [&](const Index& index) {
    return std::ranges::equal(index.keys, key_fields(field), [](const auto& key, const auto& name) {
      return key.field == name && key.is_ordered && key.is_ascending;
    });
  });
}

/// Returns whether the collection has more than `others` documents that match; nothing if the
/// server does not answer in time.
std::optional<bool> has_any(mongo::Client& client, const Namespace& ns, const Document& filter,
                            std::int32_t others = 0) {
  Document command;
  command.add("find", ns.collection).add("filter", filter).add("skip", others).add("limit", 1);
  command.add("projection", Document().add("_id", 1)).add("maxTimeMS", kQuestionMs);
  bool found = false;
  const Reply reply = client.read_all(ns.db, command, [&](Bytes) {
    found = true;
    return false;
  });
  return reply.ok() ? std::optional(found) : std::nullopt;
}

Document on(std::string_view field, const Document& condition) {
  return Document().add(field, condition);
}

IndexForm form_for(mongo::Client& client, const Namespace& ns, const UniqueField& field) {
  if (field.repeats.any()) return IndexForm::existing;
  const auto has_null = has_any(client, ns, on(field.name, Document().add("$type", "null")));
  if (has_null.value_or(false) && field.type != ValueType::other) return IndexForm::partial;
  const auto lacks = has_any(client, ns, on(field.name, Document().add("$exists", false)));
  if (has_null.value_or(true) || lacks.value_or(true)) return IndexForm::sparse;
  const auto are_many = has_any(client, ns, Document(), kTelling - 1);
  return are_many.value_or(false) ? IndexForm::plain : IndexForm::sparse;
}

Document specification(const UniqueField& field, const IndexOffer& offer) {
  Document key;
  for (const std::string& each : field.repeats.scope) key.add(each, 1);
  key.add(field.name, offer.descending ? -1 : 1);
  Document index;
  index.add("key", key)
      .add("name", offer.name.empty() ? default_name(field, offer.descending) : offer.name)
      .add("unique", true);
  if (offer.form == IndexForm::sparse) index.add("sparse", true);
  Document condition;
  if (offer.form == IndexForm::partial) condition.add("$type", alias_of(field.type));
  if (offer.form == IndexForm::existing) condition.add("$exists", true);
  if (condition.empty()) return index;
  return index.add("partialFilterExpression", on(field.name, condition));
}

}  // namespace

std::string free_name(std::span<const Index> indexes, const UniqueField& field, bool descending) {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::find(indexes, name, &Index::name) != indexes.end();
  };
  if (!is_taken(default_name(field, descending))) return {};
  std::string name = field.name + "_unique";
  for (int n = 2; is_taken(name); ++n) name = field.name + "_unique_" + std::to_string(n);
  return name;
}

std::string create_index_command(const Namespace& ns, const UniqueField& field,
                                 const IndexOffer& offer) {
  std::string key;
  for (const std::string& each : field.repeats.scope) key += in_quotes(each) + ": 1, ";
  key += in_quotes(field.name) + (offer.descending ? ": -1" : ": 1");
  if (field.repeats.and_more) key += ", <a field that differs from period to period>: 1";
  std::string condition;
  if (offer.form == IndexForm::partial) condition = "$type: " + in_quotes(alias_of(field.type));
  if (offer.form == IndexForm::existing) condition = "$exists: true";
  std::string options = "unique: true";
  if (offer.form == IndexForm::sparse) options += ", sparse: true";
  if (!condition.empty()) {
    options += ", partialFilterExpression: {" + in_quotes(field.name) + ": {" + condition + "}}";
  }
  if (!offer.name.empty()) options += ", name: " + in_quotes(offer.name);
  return "db.getSiblingDB(" + in_quotes(ns.db) + ").getCollection(" + in_quotes(ns.collection) +
         ").createIndex({" + key + "}, {" + options + "})";
}

Reply list_indexes(mongo::Client& client, const Namespace& ns, std::vector<Index>& indexes) {
  return client.list_indexes(ns.db, ns.collection, [&](Bytes listed) {
    indexes.push_back(index_of(listed));
    return true;
  });
}

IndexOffer offer_index(mongo::Client& client, const Namespace& ns, const UniqueField& field,
                       std::span<const Index> indexes) {
  const IndexForm form = form_for(client, ns, field);
  const bool descending = !field.repeats.and_more && client.wire_version() < server_release::k5_0 &&
                          has_ascending_key(indexes, field);
  return {form, free_name(indexes, field, descending), descending};
}

std::string advise_index(mongo::Client& client, const Namespace& ns, const UniqueField& field) {
  std::vector<Index> indexes;
  (void)list_indexes(client, ns, indexes);  // without it, the name may be in use
  return create_index_command(ns, field, offer_index(client, ns, field, indexes));
}

Reply make_index(mongo::Client& client, const Namespace& ns, const UniqueField& field) {
  std::vector<Index> indexes;
  Reply listed = list_indexes(client, ns, indexes);
  if (!listed.ok() && !listed.refused(mongo::kNamespaceNotFound) &&
      !listed.refused(mongo::kUnauthorized)) {
    return listed;
  }
  if (guard_among(indexes, field) != nullptr) return {};
  const IndexOffer offer = offer_index(client, ns, field, indexes);
  Document command;
  command.add("createIndexes", ns.collection);
  command.add("indexes", Array().push(specification(field, offer)));
  Reply made = client.write(ns.db, command);
  if (!made.refused(kIndexOptionsConflict) && !made.refused(kIndexKeySpecsConflict)) return made;
  // Another proxy may have made one at the same time, in the form that fits what it saw.
  indexes.clear();
  const bool is_guarded =
      list_indexes(client, ns, indexes).ok() && guard_among(indexes, field) != nullptr;
  return is_guarded ? Reply{} : made;
}

}  // namespace idproxy::id_store
