#pragma once

#include <string>
#include <string_view>

namespace idproxy {

/// `text` with A to Z in lower case, whatever the locale: the way to compare host names (RFC 4343).
[[nodiscard]] inline std::string ascii_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace idproxy
