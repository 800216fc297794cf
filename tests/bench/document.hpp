#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace idproxy::bench {

/// The `size` bytes of a little-endian value, appended to or read from a message. The benchmark
/// runs where the host is little-endian too.
template <typename T>
void append_raw(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Needs offset + sizeof(T) <= bytes.size().
template <typename T>
T load_raw(std::string_view bytes, std::size_t offset) {
  T value{};
  bytes.copy(reinterpret_cast<char*>(&value), sizeof value, offset);
  return value;
}

/// Writes one BSON document, element by element; only the types that our messages need.
class Document {
 public:
  Document& text(std::string_view name, std::string_view value);
  Document& int32(std::string_view name, std::int32_t value);
  Document& int64(std::string_view name, std::int64_t value);
  Document& real(std::string_view name, double value);
  Document& boolean(std::string_view name, bool value);
  Document& date(std::string_view name, std::int64_t milliseconds);
  Document& timestamp(std::string_view name, std::uint64_t value);
  Document& binary(std::string_view name, std::uint8_t subtype, std::string_view value);
  Document& object_id(std::string_view name, std::string_view twelve_bytes);
  Document& object(std::string_view name, const Document& value);
  Document& array(std::string_view name, const Document& value);
  /// `elements`: all of them, one after the other.
  Document& raw_array(std::string_view name, std::string_view elements);

  /// With its length in front and its terminator.
  std::string bytes() const;

 private:
  Document& begin(char type, std::string_view name);

  std::string elements_;
};

}  // namespace idproxy::bench
