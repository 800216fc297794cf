#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"

namespace idproxy::test {

/// Bytes from hex digits of either case; skips all other characters: "0A 0b-0C".
inline std::vector<std::uint8_t> from_hex(std::string_view text) {
  std::vector<std::uint8_t> bytes;
  bool half = false;
  for (const char c : text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::size_t digit =
        kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
    if (digit == std::string_view::npos) continue;
    if (!half) bytes.push_back(0);
    bytes.back() = static_cast<std::uint8_t>(bytes.back() * 16 + digit);
    half = !half;
  }
  return bytes;
}

/// Lower-case hex digits.
inline std::string to_hex(Bytes bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace idproxy::test
