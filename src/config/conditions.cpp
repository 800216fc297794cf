#include "config/conditions.hpp"

#include <algorithm>

#include "config/names.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/bson/builder.hpp"

namespace idproxy::config {
namespace {

using NodeKind = TreeNode::Kind;
using rewrite::Condition;

/// The value as Condition::values has it; "" if it is none. Types as in YAML.
std::string value_of_condition(const TreeNode& node) {
  Buffer out;
  const auto integer = read_integer(node.text);
  if (node.kind == NodeKind::null) {
    bson::append_head(out, bson::Type::null, "");
  } else if (node.kind != NodeKind::scalar) {
    return {};
  } else if (node.is_text()) {
    if (node.text.size() > ids::kMostInScope) return {};
    bson::append_string(out, "", node.text);
  } else if (node.is_boolean()) {
    bson::append_bool(out, "", node.text == "true");
  } else if (integer.reading == Reading::ok) {
    bson::append_int64(out, "", integer.value);
  }
  return std::string(as_text(out.view()));
}

constexpr std::string_view kExpected =
    "must be a value (text of up to 256 bytes, an integer, true, false or null), {$in: [value, …]} "
    "or {$exists: true or false}";

/// True if that is a condition, which it fills.
bool read_condition(const TreeNode& node, Condition& condition) {
  const auto add = [&](const TreeNode& value) {
    condition.values.push_back(value_of_condition(value));
    return !condition.values.back().empty();
  };
  if (node.kind != NodeKind::mapping) return add(node);
  if (node.children.size() != 1) return false;
  const TreeNode& only = node.children.front();
  if (only.key == "$exists" && only.kind == NodeKind::scalar && only.is_boolean()) {
    condition.exists = only.text == "true";
    return true;
  }
  return only.key == "$in" && only.kind == NodeKind::sequence && !only.children.empty() &&
         std::ranges::all_of(only.children, add);
}

}  // namespace

std::vector<Condition> read_when(const std::string& field, Parameters& rule) {
  std::vector<Condition> conditions;
  const TreeNode* when = rule.conditions("when");
  if (when == nullptr) return conditions;
  for (const TreeNode& each : when->children) {
    Condition condition{each.key};
    const std::string fault = fault_of_field(each.key);
    const bool is_own =
        each.key == field || is_prefix(each.key, field) || is_prefix(field, each.key);
    if (!fault.empty()) {
      rule.error_in("when", each, fault);
    } else if (is_own) {
      rule.error_in("when", each, "must be another field than the rule's, whose key is assign");
    } else if (each.kind == NodeKind::refused) {
      continue;
    } else if (!read_condition(each, condition)) {
      rule.error_in("when", each, kExpected);
    } else {
      conditions.push_back(std::move(condition));
    }
  }
  if (when->children.empty()) {
    rule.error("when", "must name a field; leave it out if all documents get a value");
  }
  return conditions;
}

}  // namespace idproxy::config
