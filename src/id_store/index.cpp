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

using mongo::Array;
using mongo::Document;
using mongo::Reply;

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
  if (type == ValueType::int32) return bit(bson::Type::int32);
  if (type == ValueType::int64) return bit(bson::Type::int64);
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
  for (const bson::Element& one : bson::Elements(element.value)) {
    const auto type = type_in(one);
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
  if (only->key == "$exists" && only->is_true()) {
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

/// True if the specification has options that an Index does not know. `v` and, before 5.0, `ns`
/// are none.
bool has_more_options(Bytes spec) {
  static constexpr std::array<std::string_view, 9> kKnown{
      "v",      "ns",        "key",
      "name",   "unique",    "sparse",
      "hidden", "collation", "partialFilterExpression"};
  for (const bson::Element& option : bson::Elements(spec)) {
    if (std::ranges::find(kKnown, option.key) == kKnown.end()) return true;
  }
  return false;
}

Index read_index(Bytes spec) {
  Index index;
  index.has_more = has_more_options(spec);
  index.name = bson::text_in(spec, "name");
  index.unique = bson::is_true(spec, "unique");
  index.sparse = bson::is_true(spec, "sparse");
  index.hidden = bson::is_true(spec, "hidden");
  if (const auto collation = bson::document_in(spec, "collation")) {
    index.collation = as_text(*collation);
  }
  const auto filter = bson::document_in(spec, "partialFilterExpression");
  if (filter) index.partial = partial_of(*filter);
  const auto key = bson::document_in(spec, "key");
  if (!key) return index;
  for (const bson::Element& field : bson::Elements(*key)) {
    const bool is_ordered = field.type != bson::Type::string;
    index.keys.push_back(
        {std::string(field.key), is_ordered, is_ordered && field.as_integer().value_or(1) > 0});
  }
  return index;
}

/// True if the index holds every document with a value of this type in the field.
bool covers(const Index& index, std::string_view field, ValueType type) {
  using Kind = Index::Partial::Kind;
  const Index::Partial& of = index.partial;
  if (of.kind == Kind::none || of.field != field) return of.kind == Kind::none;
  const std::uint32_t wanted = types_of(type);
  const bool has_types = wanted != 0 && (of.types & wanted) == wanted;
  return of.kind == Kind::exists || (of.kind == Kind::types && has_types);
}

/// Indexes of other kinds leave documents out, or have no order of the first field's values.
bool is_plain_key(const Index::Key& key) {
  return key.is_ordered && key.field.find("$**") == std::string::npos;
}

/// can_read(), once the index is built.
bool is_readable(const Index& index, std::string_view field, ValueType type,
                 std::span<const std::string> scope) {
  if (index.hidden || index.keys.empty()) return false;
  // Values that are stored may be numbers of other types than the rule makes.
  const bool is_number = type == ValueType::int32 || type == ValueType::int64;
  const ValueType stored = is_number ? ValueType::number : type;
  if (!std::ranges::all_of(index.keys, is_plain_key) || !covers(index, field, stored)) return false;
  const auto its = std::ranges::find(index.keys, field, &Index::Key::field);
  return its != index.keys.end() && std::all_of(index.keys.begin(), its, [&](const auto& key) {
           return std::ranges::find(scope, key.field) != scope.end();
         });
}

/// The first that `fits`, or else will once it is built; null: there is none.
template <typename Fits>
const Index* built_first(std::span<const Index> indexes, Fits fits) {
  const Index* building = nullptr;
  for (const Index& index : indexes) {
    if (!fits(index)) continue;
    if (!index.building) return &index;
    if (building == nullptr) building = &index;
  }
  return building;
}

bool guards_and_reads(const Index& index, const UniqueField& field) {
  return guards(index, field) && is_readable(index, field.name, field.type, field.repeats.scope);
}

// For a question that may read many documents.
constexpr std::int32_t kQuestionMs = 1000;
// For the lock that dropping an index takes: while the server waits for it, nobody else gets one.
constexpr std::int32_t kDropMs = 1000;

/// The fields of the index's key, in its order.
std::vector<std::string> key_fields(const UniqueField& field) {
  std::vector<std::string> fields = field.repeats.scope;
  fields.push_back(field.name);
  return fields;
}

/// True if the index has this key: the fields of key_fields(), all ascending but perhaps the last.
bool has_own_key(const Index& index, const UniqueField& field, bool descending) {
  const std::vector<std::string> fields = key_fields(field);
  if (index.keys.size() != fields.size()) return false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Index::Key& key = index.keys[i];
    const bool is_last = i + 1 == fields.size();
    const bool fits = key.is_ordered && key.is_ascending != (descending && is_last);
    if (key.field != fields[i] || !fits) return false;
  }
  return true;
}

/// True if indexes get a collation unless they name one: that of _id has it.
bool has_default_collation(std::span<const Index> indexes) {
  const auto its = std::ranges::find(indexes, kIndexOfId, &Index::name);
  return its != indexes.end() && !its->collation.empty();
}

/// What the proxy asks of the field of documents that its index holds.
Document condition_of(const UniqueField& field, IndexForm form) {
  if (form == IndexForm::existing) return Document{"$exists", true};
  return {"$type", alias_of(field.type)};
}

/// True if some document has an explicit null in the field: an index that holds it would take one
/// such document only. What cannot be found out in time is not so.
bool has_null(mongo::Client& client, const Namespace& ns, const UniqueField& field) {
  const Document command{{"find", ns.collection},
                         {"limit", 1},
                         {"maxTimeMS", kQuestionMs},
                         {"filter", {field.name, {"$type", "null"}}},
                         {"projection", {"_id", 1}}};
  const Reply found = client.read_first(ns.db, command);
  return found.ok() && !found.document.empty();
}

Document specification(const UniqueField& field, const IndexOffer& offer) {
  Document key;
  for (const std::string& each : field.repeats.scope) key.add(each, 1);
  key.add(field.name, offer.descending ? -1 : 1);
  Document index{
      {"key", key}, {"name", offer.name.empty() ? own_name(field) : offer.name}, {"unique", true}};
  if (offer.by_bytes) index.add("collation", mongo::simple_collation());
  return {index, {"partialFilterExpression", {field.name, condition_of(field, offer.form)}}};
}

Reply create_index(mongo::Client& client, const Namespace& ns, const UniqueField& field,
                   const IndexOffer& offer) {
  return client.write(
      ns.db, {{"createIndexes", ns.collection}, {"indexes", Array{specification(field, offer)}}});
}

/// "" or "_2"
bool is_count(std::string_view text) {
  if (text.empty()) return true;
  return text.size() > 1 && text.front() == '_' &&
         text.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

/// True unless the server says that the index is not being built: a standalone lists one that is as
/// if it were there, and others have said it.
bool may_be_building(mongo::Client& client, const Namespace& ns, const std::string& name) {
  if (client.has_replicas()) return false;
  const Reply reply = client.read(ns.db, {"collStats", ns.collection});
  if (!reply.ok()) return true;
  const auto builds = bson::find(reply.document.bytes(), "indexBuilds");
  if (!builds || builds->type != bson::Type::array) return false;
  for (const bson::Element& each : bson::Elements(builds->value)) {
    if (each.type == bson::Type::string && each.text() == name) return true;
  }
  return false;
}

Reply drop_index(mongo::Client& client, const Namespace& ns, const std::string& name) {
  Reply dropped = client.write(
      ns.db, {{"dropIndexes", ns.collection}, {"index", name}, {"maxTimeMS", kDropMs}});
  return dropped.refused(ErrorCode::index_not_found) ? Reply{} : dropped;
}

bool has_same_key(const Index& one, const Index& other) {
  return std::ranges::equal(one.keys, other.keys, [](const auto& left, const auto& right) {
    return left.field == right.field && left.is_ordered && right.is_ordered &&
           left.is_ascending == right.is_ascending;
  });
}

/// True if the server may refuse one of `wanted` because of the index: 86 for its name, 85 for its
/// key, since 5.0 with the same filter only (observed, 4.4.2, 5.0.4, 6.0.5).
bool is_in_the_way(const Index& index, const std::vector<Index>& wanted, std::int32_t version) {
  return std::ranges::any_of(wanted, [&](const Index& each) {
    const bool has_same_filter = each.partial.field == index.partial.field &&
                                 each.partial.condition == index.partial.condition;
    return each.name == index.name ||
           (has_same_key(each, index) && (version < server_release::k5_0 || has_same_filter));
  });
}

std::vector<Index> indexes_in(Bytes array) {
  std::vector<Index> found;
  for (const bson::Element& index : bson::Elements(array)) {
    if (index.type == bson::Type::document) found.push_back(index_of(index.value));
  }
  return found;
}

/// The offer by which the proxy has made its own index.
IndexOffer offer_of(const Index& own, std::span<const Index> indexes) {
  const bool is_existing = own.partial.kind == Index::Partial::Kind::exists;
  return {is_existing ? IndexForm::existing : IndexForm::partial, own.name,
          !own.keys.back().is_ascending, has_default_collation(indexes)};
}

/// Whatever becomes of it.
Reply await_own(mongo::Client& client, const Namespace& ns, const UniqueField& field,
                std::span<const Index> indexes) {
  for (const Index& index : indexes) {
    // The same createIndexes waits for one that is being carried out.
    if (is_own(index, field)) (void)create_index(client, ns, field, offer_of(index, indexes));
  }
  return {};
}

}  // namespace

ValueType value_type_of(bson::Type type) {
  using bson::Type;
  constexpr std::array<std::pair<Type, ValueType>, 5> kTypes{
      {{Type::int32, ValueType::int32},
       {Type::int64, ValueType::int64},
       {Type::string, ValueType::string},
       {Type::binary, ValueType::binary},
       {Type::object_id, ValueType::object_id}}};
  const auto* const found = std::ranges::find(kTypes, type, &std::pair<Type, ValueType>::first);
  return found == kTypes.end() ? ValueType::other : found->second;
}

std::string_view alias_of(ValueType type) {
  constexpr std::array<std::string_view, 7> kNames{"number",  "number",   "number", "string",
                                                   "binData", "objectId", ""};
  return kNames[static_cast<std::size_t>(type)];
}

Index index_of(Bytes listed) {
  const auto spec = bson::document_in(listed, "spec");
  Index index = read_index(spec.value_or(listed));
  index.building = spec.has_value();
  return index;
}

bool can_read(const Index& index, std::string_view field, ValueType type,
              std::span<const std::string> scope) {
  return !index.building && is_readable(index, field, type, scope);
}

bool has_key(const Index& index, std::string_view field, const Repetition& repeats) {
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
  return built_first(indexes, [&](const Index& index) { return guards(index, field); });
}

const Index* readable_guard_among(std::span<const Index> indexes, const UniqueField& field) {
  return built_first(indexes, [&](const Index& index) { return guards_and_reads(index, field); });
}

std::string own_name(const UniqueField& field) {
  std::string name;
  for (const std::string& each : key_fields(field)) name += each + '_';
  return name + "idproxy";
}

std::string free_name(std::span<const Index> indexes, const UniqueField& field) {
  std::string name = own_name(field);
  const auto is_taken = [&] {
    return std::ranges::find(indexes, name, &Index::name) != indexes.end();
  };
  for (int n = 2; is_taken(); ++n) name = own_name(field) + "_" + std::to_string(n);
  return name;
}

bool is_own(const Index& index, const UniqueField& field) {
  const std::string name = own_name(field);
  if (field.repeats.and_more || !index.name.starts_with(name)) return false;
  const bool has_options =
      index.unique && !index.sparse && !index.hidden && !index.has_more && index.collation.empty();
  const auto has_filter = [&](IndexForm form) {
    const Document condition = condition_of(field, form);
    return index.partial.field == field.name &&
           index.partial.condition == as_text(condition.bytes());
  };
  return is_count(std::string_view(index.name).substr(name.size())) && has_options &&
         (has_filter(IndexForm::existing) || has_filter(IndexForm::partial)) &&
         (has_own_key(index, field, false) || has_own_key(index, field, true));
}

const Index* yields_to(std::span<const Index> indexes, const UniqueField& field) {
  const auto has_made = [&](const Index& index) { return is_own(index, field); };
  if (std::ranges::none_of(indexes, has_made)) return nullptr;
  const auto found = std::ranges::find_if(indexes, [&](const Index& index) {
    return !index.building && !has_made(index) && guards_and_reads(index, field);
  });
  return found == indexes.end() ? nullptr : &*found;
}

Commands create_index_command(const Namespace& ns, const UniqueField& field,
                              const IndexOffer& offer) {
  if (!std::ranges::all_of(field.repeats.scope, is_name)) return {};
  std::string key;
  for (const std::string& each : field.repeats.scope) key += in_quotes(each) + ": 1, ";
  key += in_quotes(field.name) + (offer.descending ? ": -1" : ": 1");
  if (field.repeats.and_more) key += ", <a field that differs from period to period>: 1";
  const std::string condition = offer.form == IndexForm::existing
                                    ? "$exists: true"
                                    : "$type: " + in_quotes(alias_of(field.type));
  std::string options =
      "unique: true, partialFilterExpression: {" + in_quotes(field.name) + ": {" + condition + "}}";
  if (offer.by_bytes) options += R"(, collation: {locale: "simple"})";
  options += ", name: " + in_quotes(offer.name.empty() ? own_name(field) : offer.name);
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
  // An application's index by $type lets null in any number of times.
  const bool is_typed = std::ranges::any_of(indexes, [&](const Index& each) {
    return each.partial.kind == Index::Partial::Kind::types && each.partial.field == field.name;
  });
  const bool is_partial =
      field.type != ValueType::other && (is_typed || has_null(client, ns, field));
  const bool descends = std::ranges::none_of(
      indexes, [&](const Index& each) { return has_own_key(each, field, true); });
  return {is_partial ? IndexForm::partial : IndexForm::existing, free_name(indexes, field),
          descends, has_default_collation(indexes)};
}

Commands advise_index(mongo::Client& client, const Namespace& ns, const UniqueField& field) {
  std::vector<Index> indexes;
  (void)list_indexes(client, ns, indexes);  // without it, the name may be in use
  return create_index_command(ns, field, offer_index(client, ns, field, indexes));
}

Reply make_index(mongo::Client& client, const Namespace& ns, const UniqueField& field,
                 bool& is_new) {
  Reply made;
  // At the same time another proxy may have made one, in the form that fits what it saw, or the
  // name may have been taken for another field.
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::vector<Index> indexes;
    Reply listed = list_indexes(client, ns, indexes);
    if (!listed.ok() && !listed.refused(ErrorCode::namespace_not_found) &&
        !listed.refused(ErrorCode::unauthorized)) {
      return listed;
    }
    is_new = readable_guard_among(indexes, field) == nullptr;
    if (!is_new) return {};
    made = create_index(client, ns, field, offer_index(client, ns, field, indexes));
    if (!made.refused(ErrorCode::index_options_conflict) &&
        !made.refused(ErrorCode::index_key_specs_conflict))
      break;
  }
  // A mongos says it for each shard.
  const auto before = bson::find(made.document.bytes(), "numIndexesBefore");
  const auto after = bson::integer_in(made.document.bytes(), "numIndexesAfter");
  if (before && before->as_integer() == after) is_new = false;
  return made;
}

Reply make_room(mongo::Client& client, const Namespace& ns, const UniqueField& field, Bytes wanted,
                std::string& replaced, bool& is_free) {
  std::vector<Index> indexes;
  Reply reply = list_indexes(client, ns, indexes);
  const std::vector<Index> others = indexes_in(wanted);
  if (others.empty()) return await_own(client, ns, field, indexes);
  const std::int32_t version = client.wire_version();
  const auto is_kept = [&](const Index& index) {
    return is_own(index, field) && !index.building && !is_in_the_way(index, others, version);
  };
  const Index* other = yields_to(indexes, field);
  bool is_guarded = std::ranges::any_of(indexes, is_kept) ||
                    (other != nullptr && !may_be_building(client, ns, other->name));
  for (const Index& index : indexes) {
    if (!is_own(index, field) || is_kept(index) || !reply.ok()) continue;
    if (!is_guarded) {
      IndexOffer offer = offer_of(index, indexes);
      offer.name = free_name(indexes, field);
      offer.descending = !offer.descending;
      Index instead = index;
      instead.name = offer.name;
      instead.keys.back().is_ascending = !offer.descending;
      if (is_in_the_way(instead, others, version)) {
        is_free = false;
        return {};
      }
      reply = create_index(client, ns, field, offer);
      if (!reply.ok()) return reply;
      is_guarded = true;
    }
    reply = drop_index(client, ns, index.name);
    if (reply.ok()) replaced = index.name;
  }
  return reply;
}

Reply yield_index(mongo::Client& client, const Namespace& ns, const UniqueField& field,
                  std::string& to) {
  std::vector<Index> indexes;
  Reply reply = list_indexes(client, ns, indexes);
  const Index* other = yields_to(indexes, field);
  if (!reply.ok() || other == nullptr || may_be_building(client, ns, other->name)) return reply;
  for (const Index& index : indexes) {
    if (!is_own(index, field)) continue;
    reply = drop_index(client, ns, index.name);
    if (!reply.ok()) return reply;
    to = other->name;
  }
  return reply;
}

}  // namespace idproxy::id_store
