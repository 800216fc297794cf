#pragma once

#include <string_view>

/// Patterns in which '*' matches any number of characters, including none, and '?' matches one
/// character of UTF-8. No other character is special.
namespace idproxy {

/// True if `pattern` matches the whole `text`. Takes time at most linear in the product of their
/// sizes.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text);
[[nodiscard]] inline bool has_wildcards(std::string_view pattern) {
  return pattern.find_first_of("*?") != std::string_view::npos;
}
/// True if some text matches both patterns.
[[nodiscard]] bool globs_overlap(std::string_view a, std::string_view b);

}  // namespace idproxy
