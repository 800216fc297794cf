#pragma once

#include <cstddef>
#include <string_view>

namespace idproxy {

/// What stands for a byte that belongs to no character.
inline constexpr char32_t kReplacementCharacter = 0xfffd;

/// One character of a text.
struct Utf8Character {
  char32_t code_point;
  std::size_t size;  ///< in bytes, 1 to 4
};

/// The character at the front of `text`, which is not empty. A byte that does not begin a
/// well-formed one (RFC 3629: overlong forms, surrogates and what is above U+10FFFF are not) is
/// U+FFFD by itself.
[[nodiscard]] Utf8Character first_character(std::string_view text);

}  // namespace idproxy
