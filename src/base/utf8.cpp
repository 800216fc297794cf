#include "idproxy/base/utf8.hpp"

namespace idproxy {
namespace {

constexpr Utf8Character kInvalid{kReplacementCharacter, 1};

bool is_surrogate(char32_t code_point) {
  return code_point >= 0xd800 && code_point <= 0xdfff;
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  // The smallest code point that a sequence of this many bytes may encode.
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return {first, 1};
  if (first < 0xc0 || first >= 0xf8) return kInvalid;
  const std::size_t size = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size > text.size()) return kInvalid;
  char32_t code_point = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0U) != 0x80) return kInvalid;
    code_point = code_point << 6U | (next & 0x3fU);
  }
  if (code_point < kSmallest[size] || code_point > 0x10ffff || is_surrogate(code_point)) {
    return kInvalid;
  }
  return {code_point, size};
}

}  // namespace idproxy
