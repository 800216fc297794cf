#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "idproxy/base/bytes.hpp"

namespace idproxy::bson {

/// The NUL of the key at `key`; `end` if there is none before it. Eight bytes at a time: a byte at
/// a time, the processor guesses the end of nearly every key wrong.
inline const std::uint8_t* end_of_key(const std::uint8_t* key, const std::uint8_t* end) {
  constexpr std::ptrdiff_t kWord = 8;
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighs = 0x8080808080808080;
  for (; end - key >= kWord; key += kWord) {
    const auto word = static_cast<std::uint64_t>(load_i64(key));
    // Bits 7, 15, … of the bytes 00. Above the first one there may be others.
    const std::uint64_t nuls = (word - kOnes) & ~word & kHighs;
    if (nuls != 0) return key + std::countr_zero(nuls) / kWord;
  }
  return std::find(key, end, 0);
}

}  // namespace idproxy::bson
