#include "app/value_text.hpp"

#include <cstddef>

namespace idproxy::app {
namespace {

constexpr std::uint8_t kUuid = 4;  // the subtype of binary

std::string hex(Bytes bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

/// int32 size, uint8 subtype, and the bytes.
std::string binary_text(Bytes value) {
  const std::uint8_t subtype = value[4];
  std::string digits = hex(value.subspan(5));
  if (subtype != kUuid)
    return "HexData(" + std::to_string(subtype) + ", " + in_quotes(digits) + ")";
  for (const std::size_t at : {20U, 16U, 12U, 8U}) digits.insert(at, "-");
  return "UUID(" + in_quotes(digits) + ")";
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string value_text(bson::Type type, Bytes value) {
  switch (type) {
    case bson::Type::int32:
      return std::to_string(load_i32(value.data()));
    case bson::Type::int64:
      return std::to_string(load_i64(value.data()));
    case bson::Type::string:
      return in_quotes(as_text(value.subspan(4, value.size() - 5)));
    case bson::Type::object_id:
      return "ObjectId(" + in_quotes(hex(value)) + ")";
    case bson::Type::binary:
      return binary_text(value);
    default:
      return "HexData(0, " + in_quotes(hex(value)) + ")";
  }
}

}  // namespace idproxy::app
