#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/exceptions.hpp"
#include "config/key_meanings.hpp"
#include "config/key_values.hpp"
#include "config/tree.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/config/keys.hpp"
#include "idproxy/ids/strategies.hpp"

namespace idproxy::config {
namespace {

namespace json = boost::json;
using NodeKind = TreeNode::Kind;
using Type = KeySpec::Type;
using Meanings = std::map<std::string, std::string>;

constexpr std::string_view kAny = "HOST:1";  // a key of a mapping with names of the operator's

// ---- asking the reader -------------------------------------------------------------------------

/// What the reader has said about a key, and the keys below it, in all files that it was given.
struct Shape {
  std::string key;
  KeySpec spec{};
  std::size_t required = 0;  ///< how often
  std::size_t reads = 0;     ///< how often it was read as a mapping
  bool has_any_keys = false;
  std::vector<Shape> keys{};

  Shape& below(std::string_view name, const KeySpec& its) {
    const auto known = std::ranges::find(keys, name, &Shape::key);
    if (known != keys.end()) return *known;
    return keys.emplace_back(Shape{std::string(name), its});
  }
};

void widen(KeySpec& spec, const KeySpec& other) {
  spec.min = std::min(spec.min, other.min);
  spec.max = std::max(spec.max, other.max);
  spec.section = spec.section || other.section;
  spec.nullable = spec.nullable || other.nullable;
}

/// The sections are at most kMaxDepth deep.
void learn(const Parameters& reader, Shape& shape) {
  ++shape.reads;
  shape.has_any_keys = reader.has_any_keys();
  for (const auto& [key, spec] : in_order(reader)) {
    Shape& each = shape.below(key, *spec);
    widen(each.spec, *spec);
    if (spec->required) ++each.required;
    const auto section = reader.sections().find(key);
    if (section != reader.sections().end()) learn(*section->second, each);
  }
}

TreeNode scalar(std::string_view text) {
  TreeNode node;
  node.kind = NodeKind::scalar;
  node.text = text;
  return node;
}

TreeNode of_kind(NodeKind kind) {
  TreeNode node;
  node.kind = kind;
  return node;
}

/// A value at a path of keys.
struct Probe {
  std::vector<std::string> path;
  TreeNode value;
};

/// The values that may have the reader ask for other keys: each word of a choice, and mappings.
void add_probes(const Shape& shape, std::vector<std::string>& path, std::vector<Probe>& probes) {
  if (shape.spec.section) probes.push_back({path, of_kind(NodeKind::mapping)});
  for (const std::string_view word : shape.spec.words) probes.push_back({path, scalar(word)});
  path.emplace_back(kAny);
  if (shape.has_any_keys) probes.push_back({path, scalar("1")});
  path.pop_back();
  for (const Shape& each : shape.keys) {
    path.push_back(each.key);
    add_probes(each, path, probes);
    path.pop_back();
  }
}

TreeNode& child_of(TreeNode& mapping, const std::string& key) {
  mapping.kind = NodeKind::mapping;
  const auto known = std::ranges::find(mapping.children, key, &TreeNode::key);
  if (known != mapping.children.end()) return *known;
  mapping.children.emplace_back().key = key;
  return mapping.children.back();
}

void put(const Probe& probe, TreeNode& mapping) {
  TreeNode* node = &mapping;
  for (const std::string& key : probe.path) node = &child_of(*node, key);
  TreeNode value = probe.value;
  value.key = node->key;
  *node = std::move(value);
}

std::size_t size_of(const Shape& shape) {
  std::size_t size = 1;
  for (const Shape& each : shape.keys) size += size_of(each);
  return size;
}

/// Has the reader read all that begins with `base` and has one probe, until it asks for nothing
/// new. `read` has it read a mapping.
template <class Read>
Shape explore(const TreeNode& base, const Read& read) {
  Shape shape;
  read(base, shape);
  for (std::size_t before = 0; before < size_of(shape);) {
    before = size_of(shape);
    std::vector<Probe> probes;
    std::vector<std::string> path;
    add_probes(shape, path, probes);
    for (const Probe& probe : probes) {
      TreeNode mapping = base;
      put(probe, mapping);
      read(mapping, shape);
    }
  }
  return shape;
}

Shape shape_of_file(ids::Sources sources) {
  return explore(of_kind(NodeKind::mapping), [&](const TreeNode& mapping, Shape& shape) {
    (void)parse(canonical_text(mapping), sources, "",
                [&](const Parameters& file, const Config&) { learn(file, shape); });
  });
}

Shape shape_of_rule(std::string_view strategy, ids::Sources sources) {
  TreeNode base = of_kind(NodeKind::mapping);
  put({{"ns"}, scalar("DATABASE.COLLECTION")}, base);
  put({{"field"}, scalar("FIELD")}, base);
  put({{"strategy"}, scalar(strategy)}, base);
  return explore(base, [&](const TreeNode& mapping, Shape& shape) {
    if (std::ranges::find(mapping.children, "strategy", &TreeNode::key)->text != strategy) return;
    TreeNode root = of_kind(NodeKind::mapping);
    TreeNode rules = of_kind(NodeKind::sequence);
    rules.children.push_back(mapping);
    put({{"rules"}, std::move(rules)}, root);
    (void)parse(canonical_text(root), sources, "", [&](const Parameters& file, const Config&) {
      learn(*file.sections().at("rules[0]"), shape);
    });
  });
}

// ---- writing the schema ------------------------------------------------------------------------

json::value number_of(double value) {
  const bool is_integer = std::floor(value) == value && std::abs(value) < 1e15;
  return is_integer ? json::value(static_cast<std::int64_t>(value)) : json::value(value);
}

bool has(double bound) {
  return std::abs(bound) < std::numeric_limits<double>::max();
}

void add_bounds(const KeySpec& spec, json::object& schema) {
  if (has(spec.min)) schema["minimum"] = number_of(spec.min);
  if (has(spec.max)) schema["maximum"] = number_of(spec.max);
}

/// Any scalar can be read as a text.
json::object any_text() {
  return {{"type", {"string", "number", "boolean"}}};
}

/// The values of fields.
json::object any_scalar() {
  return {{"type", {"string", "integer", "boolean", "null"}}};
}

json::object pattern(std::string_view units) {
  return {{"type", "string"}, {"pattern", "^(0|[1-9][0-9]*)(" + std::string(units) + ")$"}};
}

/// Of a key's own type; without those that take words only.
json::object type_of(const KeySpec& spec) {
  json::object schema;
  switch (spec.type) {
    case Type::integer:
      schema["type"] = "integer";
      add_bounds(spec, schema);
      break;
    case Type::number:
      schema["type"] = "number";
      add_bounds(spec, schema);
      break;
    case Type::boolean:
      schema["type"] = "boolean";
      break;
    case Type::duration:
      return pattern("ms|s|m|h");
    case Type::size:
      return pattern("B|KiB|MiB|GiB");
    case Type::texts:
      return {{"type", "array"}, {"items", any_text()}};
    case Type::members:
      return {{"type", "object"},
              {"propertyNames", {{"pattern", "^[^.$][^.]*$"}}},
              {"additionalProperties", any_scalar()}};
    case Type::conditions:
      return {{"type", "object"},
              {"minProperties", 1},
              {"additionalProperties",
               {{"anyOf",
                 {any_scalar(),
                  {{"type", "object"},
                   {"properties",
                    {{"$in", {{"type", "array"}, {"minItems", 1}, {"items", any_scalar()}}},
                     {"$exists", {{"type", "boolean"}}}}},
                   {"additionalProperties", false},
                   {"minProperties", 1},
                   {"maxProperties", 1}}}}}}};
    case Type::text:
      schema = any_text();
      if (spec.required || spec.nullable) schema["minLength"] = 1;
      break;
    case Type::word:
    case Type::none:
      break;
  }
  return schema;
}

/// Words beside other values, or all values of a key.
json::array words_of(const KeySpec& spec) {
  json::array words;
  for (const std::string_view word : spec.words) {
    words.push_back(value_of(Type::word, std::string(word)));
    if (word == "null") words.push_back(nullptr);  // without quotes
  }
  return words;
}

/// Whether nothing but its words is a value.
bool is_closed(const KeySpec& spec) {
  return !spec.words.empty() && !has(spec.min) && !has(spec.max);
}

/// "1ms to 10m", for the types whose bounds a pattern does not show.
std::string bounds_of(const KeySpec& spec) {
  const auto text = [&](double bound) {
    const auto value = static_cast<std::int64_t>(bound);
    return spec.type == Type::size ? size_text(value)
                                   : duration_text(std::chrono::milliseconds(value));
  };
  const bool has_unit = spec.type == Type::size || spec.type == Type::duration;
  return has_unit ? text(spec.min) + " to " + text(spec.max) : "";
}

std::string description_of(const KeySpec& spec, const std::string& path, const Meanings& meanings) {
  if (spec.gone) return "Has no effect any more";
  const auto found = meanings.find(path);
  const std::string meaning = found == meanings.end() ? "" : found->second;
  const std::string bounds = bounds_of(spec);
  return bounds.empty() ? meaning : meaning + " (" + bounds + ")";
}

json::object schema_of(const Shape& shape, const std::string& path, const Meanings& meanings);

json::object mapping_of(const Shape& shape, const std::string& path, const Meanings& meanings) {
  const std::string before = path.empty() ? "" : path + ".";
  json::object schema{{"type", "object"}, {"additionalProperties", false}};
  json::object properties;
  json::array required;
  for (const Shape& each : shape.keys) {
    json::object its = schema_of(each, before + each.key, meanings);
    if (shape.has_any_keys) {
      its.erase("default");
      schema["additionalProperties"] = std::move(its);
      return schema;
    }
    properties[each.key] = std::move(its);
    if (each.required == shape.reads) required.emplace_back(each.key);
  }
  schema["properties"] = std::move(properties);
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}

/// Whether a variable can stand for a value: any scalar; a text needs no mention.
bool takes_variable(const KeySpec& spec) {
  if (spec.type == Type::text) return is_closed(spec);
  return spec.type != Type::none && spec.type != Type::texts && spec.type != Type::members &&
         spec.type != Type::conditions;
}

/// As one more type where there is one form: editors then say more than for a choice of forms.
void add_null(json::array& forms) {
  json::object& first = forms.front().as_object();
  if (forms.size() > 1 || !first.contains("type")) {
    forms.emplace_back(json::object{{"type", "null"}});
  } else if (first["type"].is_array()) {
    first["type"].as_array().emplace_back("null");
  } else {
    first["type"] = json::array{first["type"], "null"};
  }
}

json::object schema_of(const Shape& shape, const std::string& path, const Meanings& meanings) {
  const KeySpec& spec = shape.spec;
  json::array forms;
  if (spec.type != Type::none && !is_closed(spec)) forms.push_back(type_of(spec));
  if (!spec.words.empty()) forms.emplace_back(json::object{{"enum", words_of(spec)}});
  if (takes_variable(spec)) forms.emplace_back(json::object{{"$ref", "#/$defs/variable"}});
  if (spec.section) forms.push_back(mapping_of(shape, path, meanings));
  if (spec.list) {
    const bool of_rules = shape.key == "rules";
    const json::object item =
        of_rules ? json::object{{"$ref", "#/$defs/rule"}} : json::object{{"type", "object"}};
    json::object list{{"type", "array"}, {"items", item}};
    if (has(spec.max)) list["maxItems"] = number_of(spec.max);
    forms.push_back(std::move(list));
  }
  if (spec.nullable) add_null(forms);
  json::object schema;
  if (forms.size() == 1) schema = forms.front().as_object();
  if (forms.size() > 1) schema["anyOf"] = std::move(forms);
  const std::string description = description_of(spec, path, meanings);
  if (!description.empty()) schema["description"] = description;
  if (spec.gone) schema["deprecated"] = true;
  const bool has_default = spec.type != Type::none && !spec.required && !spec.computed;
  if (has_default) schema["default"] = fallback_of(spec);
  return schema;
}

/// Of the rules of one strategy: its keys, where `strategy` is its name.
json::object branch_of(std::string_view strategy, json::object keys) {
  json::object is_it{{"properties", {{"strategy", {{"const", strategy}}}}},
                     {"required", {"strategy"}}};
  return {{"if", std::move(is_it)}, {"then", std::move(keys)}};
}

json::object schema_of_rules(ids::Sources sources) {
  json::array branches;
  const auto add = [&](std::string_view strategy) {
    json::object keys = mapping_of(shape_of_rule(strategy, sources), "", key_meanings(strategy));
    branches.push_back(branch_of(strategy, keys));
    return keys;
  };
  for (const ids::Kind& kind : ids::kinds()) add(kind.name);
  json::object least = add(kNone);
  // What every rule must have, also before it has a strategy.
  json::object properties;
  for (const json::value& key : least["required"].as_array()) {
    properties[key.as_string()] = least["properties"].as_object()[key.as_string()];
  }
  return {{"type", "object"},
          {"required", least["required"]},
          {"properties", std::move(properties)},
          {"allOf", std::move(branches)}};
}

}  // namespace

json::value json_schema(ids::Sources sources) {
  json::object schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                      {"title", "Configuration of mongo-idproxy"}};
  for (auto& [key, value] : mapping_of(shape_of_file(sources), "", key_meanings(""))) {
    schema[key] = std::move(value);
  }
  schema["type"] = {"object", "null"};  // an empty file has all defaults
  schema["$defs"] = {{"rule", schema_of_rules(sources)},
                     {"variable",
                      {{"description", "An environment variable"},
                       {"type", "string"},
                       {"pattern", "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}"}}}};
  return schema;
}

}  // namespace idproxy::config
