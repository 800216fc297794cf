#include "idproxy/rewrite/duplicate_key.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "idproxy/bson/elements.hpp"

namespace idproxy::rewrite {
namespace {

/// True if `key` is `field` or one of the documents that contain it.
bool holds(std::string_view key, std::string_view field) {
  if (!field.starts_with(key)) return false;
  return field.size() == key.size() || field[key.size()] == '.';
}

bool in_pattern(Bytes pattern, std::string_view field) {
  bool found = false;
  bson::Elements keys(pattern);
  while (const auto key = keys.next()) found = found || holds(key->key, field);
  return found && !keys.malformed();
}

/// The index name, which is between "index: " and what follows it in `errmsg`. Nothing unless the
/// error is about `ns`, because other names may contain these words themselves.
std::optional<std::string_view> index_name(std::string_view errmsg, std::string_view ns) {
  const std::string head = "collection: " + std::string(ns) + " index: ";
  const auto start = errmsg.find(head);
  if (start == std::string_view::npos) return std::nullopt;
  const std::string_view rest = errmsg.substr(start + head.size());
  const auto end = std::min(rest.find(" dup key"), rest.find(" collation:"));
  if (end == std::string_view::npos) return std::nullopt;
  return rest.substr(0, end);
}

bool named_after(std::string_view index, std::string_view field) {
  if (index == "_id_") return holds("_id", field);
  return index.size() > field.size() && index.starts_with(field) && index[field.size()] == '_';
}

}  // namespace

std::vector<std::uint16_t> curable(Bytes error, std::string_view ns, const Plan& plan) {
  std::vector<std::uint16_t> assignments;
  const auto add = [&](const auto& concerns) {
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (concerns(plan[i].rule->field)) assignments.push_back(static_cast<std::uint16_t>(i));
    }
  };
  if (const auto pattern = bson::find(error, "keyPattern")) {
    if (pattern->type != bson::Type::document) return {};
    add([&](std::string_view field) { return in_pattern(pattern->value, field); });
    return assignments;
  }
  const auto errmsg = bson::find(error, "errmsg");
  if (!errmsg || errmsg->type != bson::Type::string) return {};
  const auto index = index_name(errmsg->text(), ns);
  if (!index) return {};
  add([&](std::string_view field) { return named_after(*index, field); });
  return assignments;
}

bool is_on_field_alone(Bytes error, std::string_view field) {
  const auto pattern = bson::find(error, "keyPattern");
  if (!pattern || pattern->type != bson::Type::document) return false;
  bson::Elements keys(pattern->value);
  const auto only = keys.next();
  return only && only->key == field && !keys.next() && !keys.malformed();
}

}  // namespace idproxy::rewrite
