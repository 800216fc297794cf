#pragma once

#include <cstdint>

#include "idproxy/base/bytes.hpp"

namespace idproxy::ids {

/// Writes two lower-case digits per byte and returns the end of the text.
inline std::uint8_t* write_hex(Bytes bytes, std::uint8_t* at) {
  static constexpr std::uint8_t kDigits[] = {'0', '1', '2', '3', '4', '5', '6', '7',
                                             '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  for (const std::uint8_t byte : bytes) {
    *at++ = kDigits[byte >> 4];
    *at++ = kDigits[byte & 15];
  }
  return at;
}

}  // namespace idproxy::ids
