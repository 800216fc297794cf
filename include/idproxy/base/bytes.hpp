#pragma once

#include <boost/endian/conversion.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace idproxy {

/// Borrowed bytes, valid as long as the buffer that holds them.
using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

/// Little-endian loads and stores, for BSON and the wire protocol. The caller must check the
/// bounds.
inline std::int32_t load_i32(const std::uint8_t* p) {
  return boost::endian::load_little_s32(p);
}
inline std::uint32_t load_u32(const std::uint8_t* p) {
  return boost::endian::load_little_u32(p);
}
inline std::int64_t load_i64(const std::uint8_t* p) {
  return boost::endian::load_little_s64(p);
}
inline void store_i32(std::uint8_t* p, std::int32_t v) {
  boost::endian::store_little_s32(p, v);
}
inline void store_u32(std::uint8_t* p, std::uint32_t v) {
  boost::endian::store_little_u32(p, v);
}
inline void store_i64(std::uint8_t* p, std::int64_t v) {
  boost::endian::store_little_s64(p, v);
}

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `text == literal`, as a comparison of a constant number of bytes, for which compilers need a few
/// instructions; the operator makes them call memcmp().
template <std::size_t kSize>
[[nodiscard]] bool equals(std::string_view text, const char (&literal)[kSize]) {
  if (text.size() != kSize - 1) return false;
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): of the same size
  return std::memcmp(text.data(), literal, kSize - 1) == 0;
}

}  // namespace idproxy
