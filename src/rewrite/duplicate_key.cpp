#include "idproxy/rewrite/duplicate_key.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

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

// The text of Microsoft's DocumentDB, which FerretDB 2 is built on, in place of mongod's.
constexpr std::string_view kOtherText = "Duplicate key violation on the requested collection";

/// Returns the text behind `head`; nothing if `head` is not in it.
std::optional<std::string_view> behind(std::string_view text, std::string_view head) {
  const auto start = text.find(head);
  if (start == std::string_view::npos) return std::nullopt;
  return text.substr(start + head.size());
}

std::string head_of(std::string_view ns) {
  return "duplicate key error collection: " + std::string(ns);
}

/// The index name, which is between "index: " and what follows it in `errmsg`, if anything. Nothing
/// unless the error is about `ns`, because other names may contain these words themselves.
std::optional<std::string_view> index_name(std::string_view errmsg, std::string_view ns) {
  if (const auto rest = behind(errmsg, head_of(ns) + " index: ")) {
    return rest->substr(0, std::min(rest->find(" dup key"), rest->find(" collation:")));
  }
  const auto quoted = behind(errmsg, std::string(kOtherText) + ": Index '");
  if (!quoted || !quoted->ends_with("'")) return std::nullopt;
  return quoted->substr(0, quoted->size() - 1);
}

/// True if the text could have an index name, and has none.
bool names_no_index(std::string_view errmsg, std::string_view ns) {
  const auto rest = behind(errmsg, head_of(ns));
  const auto other = behind(errmsg, kOtherText);
  return rest ? rest->empty() || rest->starts_with(" dup key") : other && other->size() < 2;
}

/// The keys of the only unique index that the statement can have violated; empty: it is not known,
/// or there are several.
std::vector<std::string> only_index(std::string_view ns, const Plan& plan,
                                    const MayHaveId& may_have_id) {
  if (plan.empty() || plan.front().store == nullptr) return {};
  auto indexes = plan.front().store->unique_indexes(ns);
  if (!indexes) return {};
  if (may_have_id()) indexes->push_back({"_id"});
  return indexes->size() == 1 ? std::move(indexes->front()) : std::vector<std::string>();
}

bool named_after(std::string_view index, std::string_view field) {
  if (index == "_id_") return holds("_id", field);
  return index.size() > field.size() && index.starts_with(field) && index[field.size()] == '_';
}

}  // namespace

std::vector<std::uint16_t> curable(Bytes error, std::string_view ns, const Plan& plan,
                                   const MayHaveId& may_have_id) {
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
  if (const auto index = index_name(errmsg->text(), ns)) {
    add([&](std::string_view field) { return named_after(*index, field); });
  } else if (names_no_index(errmsg->text(), ns)) {
    const auto keys = only_index(ns, plan, may_have_id);
    add([&](std::string_view field) {
      return std::ranges::any_of(keys, [&](const auto& key) { return holds(key, field); });
    });
  }
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
