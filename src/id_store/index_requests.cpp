#include "id_store/index_requests.hpp"

#include <algorithm>
#include <optional>
#include <string>

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

IndexForm form_for(mongo::Client& client, const Namespace& ns, std::string_view field,
                   ValueType type) {
  const auto has_null = has_any(client, ns, on(field, Document().add("$type", "null")));
  if (has_null.value_or(false) && type != ValueType::other) return IndexForm::partial;
  const auto lacks = has_any(client, ns, on(field, Document().add("$exists", false)));
  if (has_null.value_or(true) || lacks.value_or(true)) return IndexForm::sparse;
  const auto are_many = has_any(client, ns, Document(), kTelling - 1);
  return are_many.value_or(false) ? IndexForm::plain : IndexForm::sparse;
}

Document specification(std::string_view field, ValueType type, const IndexOffer& offer) {
  const std::vector<std::string> fields = key_fields(field, offer.repeats);
  Document key;
  for (const std::string& each : fields) {
    key.add(each, offer.descending && &each == &fields.back() ? -1 : 1);
  }
  Document index;
  index.add("key", key)
      .add("name", offer.name.empty() ? default_name(fields, offer.descending) : offer.name);
  index.add("unique", true);
  if (offer.form == IndexForm::sparse) index.add("sparse", true);
  if (offer.form == IndexForm::partial) {
    index.add("partialFilterExpression", on(field, Document().add("$type", alias_of(type))));
  }
  if (offer.form == IndexForm::existing) {
    index.add("partialFilterExpression", on(field, Document().add("$exists", true)));
  }
  return index;
}

}  // namespace

Reply list_indexes(mongo::Client& client, const Namespace& ns, std::vector<Index>& indexes) {
  return client.list_indexes(ns.db, ns.collection, [&](Bytes listed) {
    indexes.push_back(index_of(listed));
    return true;
  });
}

IndexOffer offer_index(mongo::Client& client, const Namespace& ns, std::string_view field,
                       ValueType type, const std::vector<Index>& indexes, const Repeats& repeats) {
  const IndexForm form = repeats.any() ? IndexForm::existing : form_for(client, ns, field, type);
  const bool descending = !repeats.and_more && client.wire_version() < server_release::k5_0 &&
                          has_ascending_key(indexes, key_fields(field, repeats));
  return {form, free_name(indexes, field, repeats, descending), repeats, descending};
}

std::string advise_index(mongo::Client& client, const Namespace& ns, std::string_view field,
                         ValueType type, const Repeats& repeats) {
  std::vector<Index> indexes;
  (void)list_indexes(client, ns, indexes);  // without it, the name may be in use
  return create_index_command(ns, field, type,
                              offer_index(client, ns, field, type, indexes, repeats));
}

Reply make_index(mongo::Client& client, const Namespace& ns, std::string_view field, ValueType type,
                 const Repeats& repeats) {
  std::vector<Index> indexes;
  Reply listed = list_indexes(client, ns, indexes);
  if (!listed.ok() && !listed.refused(mongo::kNamespaceNotFound) &&
      !listed.refused(mongo::kUnauthorized)) {
    return listed;
  }
  const auto is_guarded = [&] {
    return std::ranges::any_of(
        indexes, [&](const Index& index) { return guards(index, field, type, repeats); });
  };
  if (is_guarded()) return {};
  const IndexOffer offer = offer_index(client, ns, field, type, indexes, repeats);
  Document command;
  command.add("createIndexes", ns.collection);
  command.add("indexes", Array().push(specification(field, type, offer)));
  Reply made = client.write(ns.db, command);
  if (!made.refused(kIndexOptionsConflict) && !made.refused(kIndexKeySpecsConflict)) return made;
  // Another proxy may have made one at the same time, in the form that fits what it saw.
  indexes.clear();
  return list_indexes(client, ns, indexes).ok() && is_guarded() ? Reply{} : made;
}

}  // namespace idproxy::id_store
