#pragma once

#include <string>
#include <string_view>
#include <vector>

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
/// True if `a` matches all texts that `b` matches. Sometimes false although it does, if `a` has a
/// '?'.
[[nodiscard]] bool glob_covers(std::string_view a, std::string_view b);

/// A pattern without the texts that its exceptions match.
struct Glob {
  std::string pattern;
  std::vector<Glob> except{};
  [[nodiscard]] bool matches(std::string_view text) const;
  /// As glob_covers().
  [[nodiscard]] bool covers(std::string_view other) const;
  friend bool operator==(const Glob&, const Glob&) = default;
};
using Exceptions = std::vector<Glob>;
/// True if one of the exceptions matches all texts that `pattern` matches.
[[nodiscard]] bool covers_any(const Exceptions& except, std::string_view pattern);
/// False if no text is matched by both, without their exceptions.
[[nodiscard]] bool globs_overlap(std::string_view a, const Exceptions& a_except, std::string_view b,
                                 const Exceptions& b_except);

/// True if `pattern` matches the whole `text`, and none of the exceptions does.
[[nodiscard]] bool glob_matches(std::string_view pattern, const Exceptions& except,
                                std::string_view text);

}  // namespace idproxy
