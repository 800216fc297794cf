#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "config/findings.hpp"

namespace idproxy::config {

/// A YAML value as it was written: scalars are not typed, the key that is read decides what they
/// must be.
struct TreeNode {
  enum class Kind {
    null,  ///< nothing, `~` or `null`, not quoted
    scalar,
    sequence,
    mapping,
    refused,  ///< something was found here already; whoever reads it says nothing more
  };

  Kind kind = Kind::null;
  Place place;
  bool quoted = false;  ///< scalar in quotes, or a block of text
  std::string text;     ///< scalar: its value, ${NAME} replaced
  std::string written;  ///< scalar: as in the file, if ${NAME} was replaced in it; else empty
  std::string key;      ///< child of a mapping
  Place key_place;
  std::vector<TreeNode> children;  ///< sequence: its items; mapping: its values, in file order
};

/// Nesting of mappings and lists; the deepest key that we know lies at 5.
inline constexpr std::size_t kMaxDepth = 16;
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

/// Reads one YAML document. What this program has no use for, and what readers of YAML understand
/// differently, is an error: anchors and aliases, tags, repeated keys, keys that are not text, a
/// second document, control characters, bytes that are not UTF-8. An empty file is a null node.
/// Returns nothing when the text is not YAML; then what follows the fault has not been read.
[[nodiscard]] std::optional<TreeNode> parse_tree(const std::string& text, Findings& findings);

}  // namespace idproxy::config
