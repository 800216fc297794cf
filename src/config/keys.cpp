#include "idproxy/config/keys.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "config/key_values.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

namespace json = boost::json;
using From = KeyInUse::From;
using NodeKind = TreeNode::Kind;
using Type = KeySpec::Type;

/// The variables in a text of the file, without their defaults: "${A}, ${B}".
std::string variables_in(std::string_view written) {
  std::string names;
  while (true) {
    const std::size_t start = written.find("${");
    if (start == std::string_view::npos) return names;
    const std::size_t end = std::min(written.find('}', start), written.size() - 1);
    const std::string_view variable = written.substr(start, end - start);
    names +=
        (names.empty() ? "" : ", ") + std::string(variable.substr(0, variable.find(':'))) + "}";
    written.remove_prefix(end + 1);
  }
}

/// Those in a value and in all that it contains.
std::string variables_of(const TreeNode& node) {
  std::string names = variables_in(node.written);
  for (const TreeNode& child : node.children) {
    const std::string more = variables_of(child);
    if (!names.empty() && !more.empty()) names += ", ";
    names += more;
  }
  return names;
}

/// The type of a scalar that no key decides.
Type own_type(const TreeNode& node) {
  if (node.is_text()) return Type::text;
  return node.is_boolean() ? Type::boolean : Type::integer;
}

/// A condition as it is in the file: a value, {$in: […]} or {$exists: …}.
json::value json_of_condition(const TreeNode& node) {
  if (node.kind == NodeKind::scalar) return value_of(own_type(node), node.text);
  if (node.kind == NodeKind::null) return nullptr;
  json::object operators;
  for (const TreeNode& child : node.children) {
    json::array values;
    for (const TreeNode& each : child.children) values.push_back(json_of_condition(each));
    const bool is_one = child.kind == NodeKind::scalar;
    operators[child.key] = is_one ? json_of_condition(child) : json::value(std::move(values));
  }
  return operators;
}

json::value json_of(const TreeNode& node, const KeySpec& spec) {
  if (node.kind == NodeKind::scalar) return value_of(spec.type, node.text);
  if (node.kind == NodeKind::sequence) {
    json::array items;
    for (const TreeNode& item : node.children) items.push_back(value_of(Type::text, item.text));
    return items;
  }
  if (node.kind != NodeKind::mapping) return fallback_of({.nullable = true});
  json::object members;
  for (const TreeNode& child : node.children) members[child.key] = json_of_condition(child);
  return members;
}

void add(std::string key, const TreeNode* node, const KeySpec& spec, std::vector<KeyInUse>& keys) {
  KeyInUse used{std::move(key), fallback_of(spec), {}};
  if (!spec.required) used.fallback = used.value;
  if (node != nullptr) {
    used.value = json_of(*node, spec);
    used.line = node->key_place.line;
    used.source = variables_of(*node);
    used.from = used.source.empty() ? From::file : From::variable;
  }
  keys.push_back(std::move(used));
}

/// The sections are at most kMaxDepth deep.
void add_all(const Parameters& reader, std::vector<KeyInUse>& keys) {
  const std::string before = reader.path().empty() ? "" : reader.path() + ".";
  for (const auto& [key, spec] : in_order(reader)) {
    if (spec->gone) continue;
    const auto section = reader.sections().find(key);
    if (section != reader.sections().end() && !section->second->specs().empty()) {
      add_all(*section->second, keys);
      continue;
    }
    const TreeNode* node = reader.find(key);
    if (!spec->list || node == nullptr || node->children.empty()) {
      KeySpec shown = *spec;
      shown.required = spec->required || reader.has_any_keys();
      if (spec->list) shown.fallback = "[]", shown.type = Type::texts;
      if (spec->section && !spec->nullable && spec->type == Type::none) shown.type = Type::members;
      add(before + std::string(key), node, shown, keys);
      continue;
    }
    for (std::size_t i = 0; i < node->children.size(); ++i) {
      add_all(*reader.sections().at(std::string(key) + "[" + std::to_string(i) + "]"), keys);
    }
  }
}

/// The store's connection string, if it is in a file of its own.
void add_secret(const Written& written, std::vector<KeyInUse>& keys) {
  constexpr std::string_view kFileKey = "id_store.uri_file";
  if (written.store_uri_key != kFileKey) return;
  const auto uri = std::ranges::find(keys, "id_store.uri", &KeyInUse::key);
  const auto file = std::ranges::find(keys, kFileKey, &KeyInUse::key);
  uri->value = value_of(Type::text, *written.store_uri);
  uri->from = From::secret_file;
  uri->source = file->value.as_string();
}

}  // namespace

json::value value_of(Type type, const std::string& text) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  const auto integer = read_integer(text);
  if (type == Type::boolean) return text == "true";
  if (type == Type::texts) return json::array();
  if (type == Type::members || type == Type::conditions) return json::object();
  const bool counts = type == Type::integer || type == Type::word || type == Type::number;
  if (counts && integer.reading == Reading::ok) return integer.value;
  if (type == Type::number) return read_number(text).value;
  return json::value_from(shown(text, kLongest));
}

json::value fallback_of(const KeySpec& spec) {
  if (spec.fallback.empty() && (spec.nullable || spec.required)) return nullptr;
  return value_of(spec.type, spec.fallback);
}

std::vector<NamedSpec> in_order(const Parameters& reader) {
  std::vector<NamedSpec> all;
  for (const auto& [key, spec] : reader.specs()) all.push_back({key, &spec});
  std::ranges::sort(all, {}, [](const NamedSpec& each) { return each.spec->order; });
  return all;
}

std::vector<KeyInUse> keys_of(const std::string& text, ids::Sources sources) {
  std::vector<KeyInUse> keys;
  (void)parse(text, sources, "", [&](const Parameters& file, const Config& config) {
    if (file.errors() > 0) return;
    add_all(file, keys);
    add_secret(config.written, keys);
  });
  return keys;
}

}  // namespace idproxy::config
