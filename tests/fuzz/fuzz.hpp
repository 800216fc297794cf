#pragma once

#include <cstdint>
#include <cstdlib>

#include "idproxy/base/bytes.hpp"

/// What the fuzz targets share.
namespace idproxy::fuzz {

/// Ends the run, so that the input is kept, unless `condition` holds.
inline void require(bool condition) {
  if (!condition) std::abort();
}

/// `content`, of at least a header, as one message: with its length, and `response_to`.
inline Buffer framed(Bytes content, std::int32_t response_to) {
  Buffer message;
  message.append(content);
  store_i32(message.data(), static_cast<std::int32_t>(content.size()));
  store_i32(message.data() + 8, response_to);
  return message;
}

}  // namespace idproxy::fuzz
