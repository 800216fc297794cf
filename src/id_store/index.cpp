#include "id_store/index.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/server_release.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {
namespace {

struct TypeAlias {
  std::string_view alias;
  std::uint32_t types;
};

constexpr std::uint32_t bit(bson::Type type) {
  return std::uint32_t{1} << static_cast<std::uint32_t>(type);
}

constexpr std::uint32_t kNumbers = bit(bson::Type::number_double) | bit(bson::Type::int32) |
                                   bit(bson::Type::int64) | bit(bson::Type::decimal128);

// The aliases of $type that matter here.
constexpr std::array<TypeAlias, 8> kAliases{{
    {"number", kNumbers},
    {"double", bit(bson::Type::number_double)},
    {"int", bit(bson::Type::int32)},
    {"long", bit(bson::Type::int64)},
    {"decimal", bit(bson::Type::decimal128)},
    {"string", bit(bson::Type::string)},
    {"binData", bit(bson::Type::binary)},
    {"objectId", bit(bson::Type::object_id)},
}};

/// 0 for `other`.
std::uint32_t types_of(ValueType type) {
  const auto known = std::ranges::find(kAliases, alias_of(type), &TypeAlias::alias);
  return known == kAliases.end() ? 0 : known->types;
}

/// One type of {$type: …}, by its alias or its number; nothing if it does not matter here.
std::optional<std::uint32_t> type_in(const bson::Element& element) {
  if (element.type == bson::Type::string) {
    const auto known = std::ranges::find(kAliases, element.text(), &TypeAlias::alias);
    return known == kAliases.end() ? std::nullopt : std::optional(known->types);
  }
  const auto number = element.as_integer();
  if (!number || *number < 1 || *number > 31) return std::nullopt;
  return std::uint32_t{1} << static_cast<std::uint32_t>(*number);
}

/// All types of {$type: …} or {$type: [...]}; 0 if one does not matter here.
std::uint32_t types_in(const bson::Element& element) {
  if (element.type != bson::Type::array) return type_in(element).value_or(0);
  std::uint32_t types = 0;
  bson::Elements each(element.value);
  while (const auto one = each.next()) {
    const auto type = type_in(*one);
    if (!type) return 0;
    types |= *type;
  }
  return types;
}

Index::Partial partial_of(Bytes filter) {
  using Kind = Index::Partial::Kind;
  Index::Partial partial;
  partial.kind = Kind::other;
  bson::Elements fields(filter);
  const auto field = fields.next();
  if (!field || field->type != bson::Type::document || fields.next()) return partial;
  bson::Elements operators(field->value);
  const auto only = operators.next();
  if (!only || operators.next()) return partial;
  if (only->key == "$exists" && only->as_integer().value_or(0) != 0) {
    partial.kind = Kind::exists;
  } else if (only->key == "$type") {
    partial.types = types_in(*only);
    if (partial.types != 0) partial.kind = Kind::types;
  }
  if (partial.kind == Kind::other) return partial;
  partial.field = field->key;
  partial.condition = as_text(field->value);
  return partial;
}

Index read_index(Bytes spec) {
  Index index;
  index.name = mongo::text_in(spec, "name");
  index.unique = mongo::is_true(spec, "unique");
  index.sparse = mongo::is_true(spec, "sparse");
  index.hidden = mongo::is_true(spec, "hidden");
  if (const auto collation = mongo::document_in(spec, "collation")) {
    index.collation = as_text(*collation);
  }
  const auto filter = mongo::document_in(spec, "partialFilterExpression");
  if (filter) index.partial = partial_of(*filter);
  const auto key = mongo::document_in(spec, "key");
  if (!key) return index;
  bson::Elements fields(*key);
  while (const auto field = fields.next()) {
    const bool is_ordered = field->type != bson::Type::string;
    index.keys.push_back(
        {std::string(field->key), is_ordered, is_ordered && field->as_integer().value_or(1) > 0});
  }
  return index;
}

/// True if the index holds every document with a value of this type in the field.
bool covers(const Index& index, std::string_view field, ValueType type) {
  using Kind = Index::Partial::Kind;
  switch (index.partial.kind) {
    case Kind::none:
      return true;
    case Kind::exists:
      return index.partial.field == field;
    case Kind::types: {
      const std::uint32_t wanted = types_of(type);
      return index.partial.field == field && wanted != 0 &&
             (index.partial.types & wanted) == wanted;
    }
    case Kind::other:
      break;
  }
  return false;
}

/// Indexes of other kinds leave documents out, or have no order of the first field's values.
bool is_plain_key(const Index::Key& key) {
  return key.is_ordered && key.field.find("$**") == std::string::npos;
}

}  // namespace

ValueType value_type_of(bson::Type type) {
  switch (type) {
    case bson::Type::int32:
    case bson::Type::int64:
      return ValueType::number;
    case bson::Type::string:
      return ValueType::string;
    case bson::Type::binary:
      return ValueType::binary;
    case bson::Type::object_id:
      return ValueType::object_id;
    default:
      return ValueType::other;
  }
}

std::string_view alias_of(ValueType type) {
  constexpr std::array<std::string_view, 5> kNames{"number", "string", "binData", "objectId", ""};
  return kNames[static_cast<std::size_t>(type)];
}

Index index_of(Bytes listed) {
  const auto spec = mongo::document_in(listed, "spec");
  Index index = read_index(spec.value_or(listed));
  index.building = spec.has_value();
  return index;
}

bool can_read(const Index& index, std::string_view field, ValueType type,
              std::span<const std::string> scope) {
  if (index.building || index.hidden || index.keys.empty()) return false;
  if (!std::ranges::all_of(index.keys, is_plain_key) || !covers(index, field, type)) return false;
  const auto its = std::ranges::find(index.keys, field, &Index::Key::field);
  return its != index.keys.end() && std::all_of(index.keys.begin(), its, [&](const auto& key) {
           return std::ranges::find(scope, key.field) != scope.end();
         });
}

bool has_key(const Index& index, std::string_view field, const Repeats& repeats) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(index.keys, name, &Index::Key::field) != index.keys.end();
  };
  const std::size_t named = 1 + repeats.scope.size();
  if (!has(field) || !std::ranges::all_of(repeats.scope, has)) return false;
  return repeats.and_more ? index.keys.size() > named : index.keys.size() == named;
}

bool guards(const Index& index, const UniqueField& field) {
  return index.unique && has_key(index, field.name, field.repeats) &&
         covers(index, field.name, field.type);
}

const Index* guard_among(std::span<const Index> indexes, const UniqueField& field) {
  const auto found =
      std::ranges::find_if(indexes, [&](const Index& index) { return guards(index, field); });
  return found == indexes.end() ? nullptr : &*found;
}

namespace {

using mongo::Array;
using mongo::Document;
using mongo::Reply;

// For each of the two questions that may read many documents.
constexpr std::int32_t kQuestionMs = 1000;
// If there are fewer documents and all have the field, that says nothing about the documents that
// upserts will store.
constexpr std::int32_t kTelling = 1000;

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

/// True if one of the indexes has exactly this key, ascending, and compares byte by byte. Servers
/// before 5.0 take no second index with the same key and collation, whatever its other options are
/// (observed, 4.4.2).
bool has_ascending_key(std::span<const Index> indexes, const UniqueField& field) {
  return std::ranges::any_of(indexes, [&](const Index& index) {
    return index.collation.empty() &&
           std::ranges::equal(index.keys, key_fields(field), [](const auto& key, const auto& name) {
             return key.field == name && key.is_ordered && key.is_ascending;
           });
  });
}

/// True if indexes get a collation unless they name one: that of _id has it.
bool has_default_collation(std::span<const Index> indexes) {
  const auto its = std::ranges::find(indexes, kIndexOfId, &Index::name);
  return its != indexes.end() && !its->collation.empty();
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
  if (offer.by_bytes) index.add("collation", mongo::simple_collation());
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

Commands create_index_command(const Namespace& ns, const UniqueField& field,
                              const IndexOffer& offer) {
  if (!std::ranges::all_of(field.repeats.scope, is_name)) return {};
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
  if (offer.by_bytes) options += R"(, collation: {locale: "simple"})";
  if (!offer.name.empty()) options += ", name: " + in_quotes(offer.name);
  return Commands().mongosh(in_mongosh(ns) + ".createIndex({" + key + "}, {" + options + "})",
                            {ns.db, ns.collection, field.name});
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
  return {form, free_name(indexes, field, descending), descending, has_default_collation(indexes)};
}

Commands advise_index(mongo::Client& client, const Namespace& ns, const UniqueField& field) {
  std::vector<Index> indexes;
  (void)list_indexes(client, ns, indexes);  // without it, the name may be in use
  return create_index_command(ns, field, offer_index(client, ns, field, indexes));
}

Reply make_index(mongo::Client& client, const Namespace& ns, const UniqueField& field,
                 bool& is_new) {
  std::vector<Index> indexes;
  Reply listed = list_indexes(client, ns, indexes);
  if (!listed.ok() && !listed.refused(mongo::kNamespaceNotFound) &&
      !listed.refused(mongo::kUnauthorized)) {
    return listed;
  }
  is_new = guard_among(indexes, field) == nullptr;
  if (!is_new) return {};
  const IndexOffer offer = offer_index(client, ns, field, indexes);
  Document command;
  command.add("createIndexes", ns.collection);
  command.add("indexes", Array().push(specification(field, offer)));
  Reply made = client.write(ns.db, command);
  // A mongos says it for each shard.
  const auto before = bson::find(made.document.bytes(), "numIndexesBefore");
  const auto after = mongo::integer_in(made.document.bytes(), "numIndexesAfter");
  if (before && before->as_integer() == after) is_new = false;
  if (!made.refused(kIndexOptionsConflict) && !made.refused(kIndexKeySpecsConflict)) return made;
  // Another proxy may have made one at the same time, in the form that fits what it saw.
  indexes.clear();
  const bool is_guarded =
      list_indexes(client, ns, indexes).ok() && guard_among(indexes, field) != nullptr;
  is_new = false;
  return is_guarded ? Reply{} : made;
}

}  // namespace idproxy::id_store
