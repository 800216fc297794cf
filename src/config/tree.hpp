#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "idproxy/base/parameters.hpp"

namespace idproxy::config {

/// Nesting of mappings and lists; the deepest known key is at level 5.
inline constexpr std::size_t kMaxDepth = 16;
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

/// Parses one YAML document. Reports features that the configuration does not need or that YAML
/// parsers interpret differently: anchors and aliases, tags, repeated keys, keys that are not text,
/// a second document, control characters, bytes that are not UTF-8. An empty file is a null node.
/// Returns nothing if the text is not YAML; it is then not read beyond the fault.
[[nodiscard]] std::optional<TreeNode> parse_tree(const std::string& text, Findings& findings);

/// Replaces each ${NAME} in scalar values, but not in keys, by that environment variable, and each
/// ${NAME:-default} by the default, up to the next '}', if the variable is not defined or empty.
/// Does not expand what it has put there again. An undefined variable without a default, a "${" in
/// a default, and one that does not begin ${NAME}, is an error.
void substitute_environment(TreeNode& node, Findings& findings);

/// A text that is equal for two values if and only if they mean the same: keys are sorted, and
/// quotes around text do not matter; 1 and "1" differ. Variables are expanded, so do not log it.
///
///   {strategy: uuid, digits: 12, a: [true, "true", null]}  ->
///   {"a":[true,"true",null],"digits":12,"strategy":"uuid"}
[[nodiscard]] std::string canonical_text(const TreeNode& node);
/// The text of the mapping without these keys.
[[nodiscard]] std::string canonical_text(const TreeNode& mapping,
                                         std::span<const std::string_view> without);
/// The texts of a mapping's values by key. Those of a mapping in it have dotted keys:
///
///   {strategy: uuid, retry: {attempts: 3}}  ->  {"retry.attempts": "3", "strategy": "\"uuid\""}
[[nodiscard]] std::map<std::string, std::string> canonical_texts(const TreeNode& mapping);

}  // namespace idproxy::config
