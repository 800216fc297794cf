#pragma once

#include <cstddef>
#include <string_view>

namespace idproxy {

/// The code point of a byte that belongs to no character.
inline constexpr char32_t kReplacementCharacter = 0xfffd;

/// One character of a text.
struct Utf8Character {
  char32_t code_point;
  std::size_t size;  ///< in bytes, 1 to 4
};

/// The character at the front of `text`, which must not be empty. U+FFFD with size 1 if no
/// well-formed character begins there (RFC 3629 excludes overlong forms, surrogates and code points
/// above U+10FFFF).
[[nodiscard]] Utf8Character first_character(std::string_view text);

}  // namespace idproxy
