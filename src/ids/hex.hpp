#pragma once

#include <cstddef>
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

/// The size of 00112233-4455-6677-8899-aabbccddeeff.
inline constexpr std::size_t kUuidTextSize = 36;

/// Writes the 16 bytes of a UUID as such a text.
inline void write_uuid_text(Bytes uuid, std::uint8_t* at) {
  std::size_t from = 0;
  for (const std::size_t size : {4U, 2U, 2U, 2U, 6U}) {
    if (from > 0) *at++ = '-';
    at = write_hex(uuid.subspan(from, size), at);
    from += size;
  }
}

}  // namespace idproxy::ids
