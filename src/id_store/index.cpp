#include "id_store/index.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "idproxy/base/bytes.hpp"
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
  index.collated = bson::find(spec, "collation").has_value();
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
  switch (type) {
    case ValueType::number:
      return "number";
    case ValueType::string:
      return "string";
    case ValueType::binary:
      return "binData";
    case ValueType::object_id:
      return "objectId";
    case ValueType::other:
      break;
  }
  return {};
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
  if (index.collated && (type == ValueType::string || !scope.empty())) return false;
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

}  // namespace idproxy::id_store
