#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "config/findings.hpp"

namespace idproxy::config {

/// A YAML value as written. Scalars have no type: the key that is read decides what they must be.
struct TreeNode {
  enum class Kind {
    null,  ///< nothing, `~` or `null`, not quoted
    scalar,
    sequence,
    mapping,
    refused,  ///< has been reported already; readers must not report it again
  };

  Kind kind = Kind::null;
  Place place;
  bool quoted = false;  ///< scalar: in quotes, or a block of text
  std::string text;     ///< scalar: its value, with variables replaced
  std::string written;  ///< scalar: as in the file, if it contained variables; else empty
  std::string key;      ///< child of a mapping: its key
  Place key_place;
  std::vector<TreeNode> children;  ///< sequence: its items; mapping: its values, in file order
};

/// Nesting of mappings and lists; the deepest known key is at level 5.
inline constexpr std::size_t kMaxDepth = 16;
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

/// Parses one YAML document. Reports features that the configuration does not need or that YAML
/// parsers interpret differently: anchors and aliases, tags, repeated keys, keys that are not text,
/// a second document, control characters, bytes that are not UTF-8. An empty file is a null node.
/// Returns nothing if the text is not YAML; it is then not read beyond the fault.
[[nodiscard]] std::optional<TreeNode> parse_tree(const std::string& text, Findings& findings);

}  // namespace idproxy::config
