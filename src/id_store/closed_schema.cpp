#include "idproxy/id_store/closed_schema.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "idproxy/base/printable.hpp"
#include "idproxy/bson/elements.hpp"

namespace idproxy::id_store {
namespace {

using mongo::Document;

/// The path of the first part of `field` that the schema does not permit; empty: it permits all.
std::string refused_part(Bytes schema, const std::string& field) {
  std::size_t begin = 0;
  for (std::optional<Bytes> level = schema; level;) {
    const std::size_t end = std::min(field.find('.', begin), field.size());
    const std::string_view name = std::string_view(field).substr(begin, end - begin);
    const auto properties = bson::document_in(*level, "properties");
    const bool is_listed = properties && bson::find(*properties, name);
    const auto others = bson::find(*level, "additionalProperties");
    const bool is_closed = others && others->type == bson::Type::boolean && others->value[0] == 0;
    // Which names match a pattern, only the server knows for certain.
    const bool has_patterns = bson::find(*level, "patternProperties").has_value();
    if (!is_listed) return is_closed && !has_patterns ? field.substr(0, end) : "";
    if (end == field.size()) return {};
    level = bson::document_in(*properties, name);
    begin = end + 1;
  }
  return {};
}

/// The first such part in a validator: {$jsonSchema: …}, also within $and, and the schema's allOf.
std::string refused_by(Bytes validator, const std::string& field) {
  std::string refused;
  const auto try_schema = [&](Bytes schema) {
    if (refused.empty()) refused = refused_part(schema, field);
  };
  const auto try_condition = [&](Bytes condition) {
    const auto schema = bson::document_in(condition, "$jsonSchema");
    if (!schema) return;
    try_schema(*schema);
    std::ranges::for_each(bson::documents_in(*schema, "allOf"), try_schema);
  };
  try_condition(validator);
  std::ranges::for_each(bson::documents_in(validator, "$and"), try_condition);
  return refused;
}

}  // namespace

std::string closed_schema_fault(mongo::Client& client, const Namespace& ns,
                                const std::string& field) {
  const mongo::Reply found =
      client.read_first(ns.db, {{"listCollections", 1}, {"filter", {"name", ns.collection}}});
  const auto options = bson::document_in(found.document.bytes(), "options");
  const auto validator = options ? bson::document_in(*options, "validator") : std::nullopt;
  const bool refuses = found.ok() && validator &&
                       bson::text_in(*options, "validationAction") != "warn" &&
                       bson::text_in(*options, "validationLevel") != "off";
  const std::string refused = refuses ? refused_by(*validator, field) : "";
  if (refused.empty()) return {};
  return "the validator of " + ns.text() + " permits no field " + named(refused) +
         " (its $jsonSchema has additionalProperties: false), so that inserts get error 121: add "
         "it to `properties` there, with collMod";
}

}  // namespace idproxy::id_store
