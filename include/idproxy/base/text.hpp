#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace idproxy {

/// `text == literal`, as a comparison of a constant number of bytes, for which compilers need a few
/// instructions; the operator makes them call memcmp().
template <std::size_t kSize>
[[nodiscard]] bool equals(std::string_view text, const char (&literal)[kSize]) {
  if (text.size() != kSize - 1) return false;
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): of the same size
  return std::memcmp(text.data(), literal, kSize - 1) == 0;
}

/// `text` with A to Z in lower case, whatever the locale: the way to compare host names (RFC 4343).
[[nodiscard]] inline std::string ascii_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace idproxy
