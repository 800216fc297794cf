#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <source_location>

#include "idproxy/base/bytes.hpp"

/// What the fuzz targets share.
namespace idproxy::fuzz {

/// Unless `condition` holds, says where and ends the run, so that the input is kept.
inline void require(bool condition, std::source_location where = std::source_location::current()) {
  if (condition) return;
  std::fprintf(stderr, "%s:%u does not hold\n", where.file_name(), where.line());
  std::abort();
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
