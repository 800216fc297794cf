#include "idproxy/base/glob.hpp"

#include <algorithm>

#include "idproxy/base/utf8.hpp"

namespace idproxy {
namespace {

/// Size of the first character: what '?' matches, and the step by which '*' grows.
std::size_t character(std::string_view text) {
  return first_character(text).size;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    all.push_back(text.substr(0, character(text)));
    text.remove_prefix(all.back().size());
  }
  return all;
}

}  // namespace

// It is enough to let only the last '*' match more: it can match whatever an earlier one could.
bool glob_matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t after_star = std::string_view::npos;
  std::size_t star_end = 0;  // end of the text that the last '*' matches
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_end = t;
    } else if (p < pattern.size() && pattern[p] == '?') {
      ++p;
      t += character(text.substr(t));
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      star_end += character(text.substr(star_end));
      p = after_star;
      t = star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

// overlap[j]: some text matches both a[i..] and b[j..], counted in characters. Filled from the
// ends, one row per character of `a`.
bool globs_overlap(std::string_view a, std::string_view b) {
  const auto left = characters(a);
  const auto right = characters(b);
  std::vector<char> overlap(right.size() + 1), below(right.size() + 1);
  for (std::size_t i = left.size() + 1; i-- > 0;) {
    overlap.swap(below);
    for (std::size_t j = right.size() + 1; j-- > 0;) {
      const bool star_left = i < left.size() && left[i] == "*";
      const bool star_right = j < right.size() && right[j] == "*";
      if (i == left.size() && j == right.size()) {
        overlap[j] = 1;
      } else if (star_left || star_right) {
        // The '*' ends here or matches the other side's character: each is one of these two steps.
        const bool skip_left = i < left.size() && below[j] != 0;
        const bool skip_right = j < right.size() && overlap[j + 1] != 0;
        overlap[j] = skip_left || skip_right ? 1 : 0;
      } else if (i < left.size() && j < right.size()) {
        const bool same = left[i] == right[j] || left[i] == "?" || right[j] == "?";
        overlap[j] = same && below[j + 1] != 0 ? 1 : 0;
      } else {
        overlap[j] = 0;
      }
    }
  }
  return overlap[0] != 0;
}

// Without '?', only a '*' of `a` can match a wildcard of `b`, and so whatever stands there instead.
bool glob_covers(std::string_view a, std::string_view b) {
  if (!has_wildcards(b)) return glob_matches(a, b);
  return a == b || (a.find('?') == std::string_view::npos && glob_matches(a, b));
}

bool Glob::matches(std::string_view text) const {
  return glob_matches(pattern, except, text);
}

bool Glob::covers(std::string_view other) const {
  return glob_covers(pattern, other) && std::ranges::none_of(except, [&](const Glob& each) {
           return globs_overlap(each.pattern, other);
         });
}

bool covers_any(const Exceptions& except, std::string_view pattern) {
  return std::ranges::any_of(except, [&](const Glob& each) { return each.covers(pattern); });
}

bool globs_overlap(std::string_view a, const Exceptions& a_except, std::string_view b,
                   const Exceptions& b_except) {
  return globs_overlap(a, b) && !covers_any(a_except, b) && !covers_any(b_except, a);
}

bool glob_matches(std::string_view pattern, const Exceptions& except, std::string_view text) {
  return glob_matches(pattern, text) &&
         std::ranges::none_of(except, [&](const Glob& each) { return each.matches(text); });
}

}  // namespace idproxy
