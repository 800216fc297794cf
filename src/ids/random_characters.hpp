#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/random.hpp"

namespace idproxy::ids {

inline constexpr std::size_t kMostCharacters = 64;

/// Fills a text of at most kMostCharacters with uniform characters of 2 to 95, as nanoid does
/// (https://github.com/ai/nanoid, customRandom): a byte below the largest multiple of their number
/// stands for one, and the bytes count from the last one on.
inline void draw_characters(RandomSource& random, std::string_view alphabet, MutableBytes text) {
  std::array<std::uint8_t, 256> bytes;  // at most 153 are used
  const std::size_t cutoff = bytes.size() - bytes.size() % alphabet.size();
  // 1.6 times as many as suffice on average, so that one call is enough nearly always.
  const std::size_t step = cutoff == bytes.size()
                               ? text.size()
                               : (8 * bytes.size() * text.size() - 1) / (5 * cutoff) + 1;
  for (std::size_t at = 0; at < text.size();) {
    random.fill(MutableBytes(bytes).first(step));
    for (std::size_t i = step; i-- > 0 && at < text.size();) {
      if (bytes[i] >= cutoff) continue;
      text[at++] = static_cast<std::uint8_t>(alphabet[bytes[i] % alphabet.size()]);
    }
  }
}

}  // namespace idproxy::ids
