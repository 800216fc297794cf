#include "config/definition.hpp"

#include <algorithm>
#include <vector>

#include "config/scalars.hpp"

namespace idproxy::config {
namespace {

void append_text(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

/// An unquoted scalar that looks like a number or boolean is not text, as in Reader::document().
bool is_text(const TreeNode& scalar) {
  return scalar.quoted || (scalar.text != "true" && scalar.text != "false" &&
                           read_number(scalar.text).reading == Reading::malformed);
}

// The tree is at most kMaxDepth deep.
void append(const TreeNode& node, std::string& out) {
  using Kind = TreeNode::Kind;
  if (node.kind == Kind::null || node.kind == Kind::refused) {
    out += "null";
  } else if (node.kind == Kind::scalar) {
    if (is_text(node)) return append_text(node.text, out);
    out += node.text;
  } else {
    const bool is_mapping = node.kind == Kind::mapping;
    std::vector<const TreeNode*> children;
    children.reserve(node.children.size());
    for (const TreeNode& child : node.children) children.push_back(&child);
    if (is_mapping) std::ranges::sort(children, {}, &TreeNode::key);
    out += is_mapping ? '{' : '[';
    for (const TreeNode* child : children) {
      if (child != children.front()) out += ',';
      if (is_mapping) append_text(child->key, out);
      if (is_mapping) out += ':';
      append(*child, out);
    }
    out += is_mapping ? '}' : ']';
  }
}

void add_texts(const TreeNode& mapping, const std::string& before,
               std::map<std::string, std::string>& texts) {
  for (const TreeNode& child : mapping.children) {
    const std::string key = before + child.key;
    if (child.kind == TreeNode::Kind::mapping) {
      add_texts(child, key + ".", texts);
    } else {
      append(child, texts[key]);
    }
  }
}

}  // namespace

std::map<std::string, std::string> canonical_texts(const TreeNode& mapping) {
  std::map<std::string, std::string> texts;
  add_texts(mapping, {}, texts);
  return texts;
}

std::string canonical_text(const TreeNode& node) {
  std::string text;
  append(node, text);
  return text;
}

std::string canonical_text(const TreeNode& mapping, std::span<const std::string_view> without) {
  TreeNode rest = mapping;
  std::erase_if(rest.children, [&](const TreeNode& child) {
    return std::ranges::find(without, child.key) != without.end();
  });
  return canonical_text(rest);
}

}  // namespace idproxy::config
