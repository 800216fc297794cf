#pragma once

#include <string_view>

/// Patterns in which '*' is any run of characters, the empty one too, and '?' is one character of
/// UTF-8; nothing else is special.
namespace idproxy {

/// True if `pattern` matches all of `text`. Time is at most their product.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text);
/// True if some text is matched by both patterns.
[[nodiscard]] bool globs_overlap(std::string_view a, std::string_view b);

}  // namespace idproxy
