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
    const auto properties = mongo::document_in(*level, "properties");
    const bool is_listed = properties && bson::find(*properties, name);
    const auto others = bson::find(*level, "additionalProperties");
    const bool is_closed = others && others->type == bson::Type::boolean && others->value[0] == 0;
    // Which names match a pattern, only the server knows for certain.
    const bool has_patterns = bson::find(*level, "patternProperties").has_value();
    if (!is_listed) return is_closed && !has_patterns ? field.substr(0, end) : "";
    if (end == field.size()) return {};
    level = mongo::document_in(*properties, name);
    begin = end + 1;
  }
  return {};
}

}  // namespace

std::string closed_schema_fault(mongo::Client& client, const Namespace& ns,
                                const std::string& field) {
  const Document command =
      Document().add("listCollections", 1).add("filter", Document().add("name", ns.collection));
  std::string refused;
  (void)client.read_all(ns.db, command, [&](Bytes collection) {
    const auto options = mongo::document_in(collection, "options");
    const auto validator = options ? mongo::document_in(*options, "validator") : std::nullopt;
    const auto schema = validator ? mongo::document_in(*validator, "$jsonSchema") : std::nullopt;
    const bool only_warns = options && mongo::text_in(*options, "validationAction") == "warn";
    if (schema && !only_warns) refused = refused_part(*schema, field);
    return false;
  });
  if (refused.empty()) return {};
  return "the validator of " + ns.text() + " permits no field " + named(refused) +
         " (its $jsonSchema has additionalProperties: false), so that inserts get error 121: add "
         "it "
         "to `properties` there, with collMod";
}

}  // namespace idproxy::id_store
