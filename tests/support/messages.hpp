#pragma once

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "idproxy/wire/checksum.hpp"
#include "idproxy/wire/op_msg.hpp"

/// Building blocks for valid and invalid messages. All are std::strings of bytes: join them with +,
/// damage them with replace().
namespace idproxy::test {

inline std::string text_of(Bytes bytes) {
  return std::string(as_text(bytes));
}

inline std::string i32(std::int64_t value) {
  std::uint8_t bytes[4];
  store_i32(bytes, static_cast<std::int32_t>(value));
  return text_of(bytes);
}

/// Copies each part once: some tests have messages of 48 MB.
inline std::string joined(std::initializer_list<std::string_view> parts) {
  std::size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  std::string bytes;
  bytes.reserve(size);
  for (const std::string_view part : parts) bytes.append(part);
  return bytes;
}
inline constexpr std::string_view kZero("\0", 1);

/// An element with any value bytes.
inline std::string element(bson::Type type, std::string_view key, std::string_view value) {
  const char byte = static_cast<char>(type);
  return joined({{&byte, 1}, key, kZero, value});
}
inline std::string int_field(std::string_view key, std::int32_t value) {
  return element(bson::Type::int32, key, i32(value));
}
inline std::string long_field(std::string_view key, std::int64_t value) {
  std::uint8_t bytes[8];
  store_i64(bytes, value);
  return element(bson::Type::int64, key, text_of(bytes));
}
inline std::string string_field(std::string_view key, std::string_view value,
                                bson::Type type = bson::Type::string) {
  return element(type, key,
                 joined({i32(static_cast<std::int64_t>(value.size()) + 1), value, kZero}));
}

inline std::string double_field(std::string_view key, double value) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &value, sizeof bytes);
  return element(bson::Type::number_double, key, text_of(bytes));
}
inline std::string bool_field(std::string_view key, bool value) {
  return element(bson::Type::boolean, key, {value ? "\1" : "\0", 1});
}
inline std::string timestamp_field(std::string_view key, std::uint64_t value) {
  std::uint8_t bytes[8];
  store_i64(bytes, static_cast<std::int64_t>(value));
  return element(bson::Type::timestamp, key, text_of(bytes));
}

/// A document of elements.
inline std::string doc(std::string_view elements = {}) {
  return joined({i32(static_cast<std::int64_t>(elements.size()) + 5), elements, kZero});
}
inline std::string doc_field(std::string_view key, std::string_view elements) {
  return element(bson::Type::document, key, doc(elements));
}
inline std::string array_field(std::string_view key, const std::vector<std::string>& documents) {
  std::string elements;
  int i = 0;
  for (const auto& document : documents) {
    elements += element(bson::Type::document, std::to_string(i++), document);
  }
  return element(bson::Type::array, key, doc(elements));
}
inline std::string numbers_field(std::string_view key, const std::vector<std::int32_t>& numbers) {
  std::string elements;
  int i = 0;
  for (const auto number : numbers) elements += int_field(std::to_string(i++), number);
  return element(bson::Type::array, key, doc(elements));
}
inline std::string texts_field(std::string_view key, const std::vector<std::string>& texts) {
  std::string elements;
  int i = 0;
  for (const auto& text : texts) elements += string_field(std::to_string(i++), text);
  return element(bson::Type::array, key, doc(elements));
}

inline std::string body(std::string_view document) {
  return joined({kZero, document});
}
inline std::string sequence(std::string_view identifier,
                            const std::vector<std::string>& documents) {
  std::size_t size = 4 + identifier.size() + 1;
  for (const auto& document : documents) size += document.size();
  std::string bytes = joined({"\1", i32(static_cast<std::int64_t>(size)), identifier, kZero});
  bytes.reserve(1 + size);
  for (const auto& document : documents) bytes += document;
  return bytes;
}

inline std::string message(std::int32_t op_code, std::string_view rest, std::int32_t request_id = 7,
                           std::int32_t response_to = 0) {
  return joined({i32(static_cast<std::int64_t>(rest.size()) + 16), i32(request_id),
                 i32(response_to), i32(op_code), rest});
}
/// Appends the right checksum if the flag is set.
inline std::string op_msg(std::string_view sections, std::uint32_t flags = 0,
                          std::int32_t response_to = 0) {
  const bool checksum = (flags & wire::flag::kChecksumPresent) != 0;
  std::string bytes = message(2013, joined({i32(flags), sections}), 7, response_to);
  if (!checksum) return bytes;
  bytes.replace(0, 4, i32(static_cast<std::int64_t>(bytes.size()) + 4));
  wire::Checksum crc;
  crc.add(as_bytes(bytes));
  return bytes + i32(crc.value());
}

/// OP_QUERY and OP_REPLY, with their most common flags.
inline std::string op_query(std::string_view collection, std::string_view query) {
  return message(2004,
                 i32(4) + std::string(collection) + '\0' + i32(0) + i32(-1) + std::string(query));
}
inline std::string op_reply(std::string_view document, std::int32_t response_to = 0) {
  return message(1, i32(8) + std::string(12, '\0') + i32(1) + std::string(document), 7,
                 response_to);
}

/// The message with other ids; renews the checksum, if any.
inline std::string addressed(std::string bytes, std::int32_t request_id, std::int32_t response_to) {
  bytes.replace(4, 8, i32(request_id) + i32(response_to));
  if (load_i32(as_bytes(bytes).data() + 12) != 2013) return bytes;
  const auto flags = load_u32(as_bytes(bytes).data() + wire::kFlagsOffset);
  if ((flags & wire::flag::kChecksumPresent) == 0) return bytes;
  wire::Checksum crc;
  crc.add(as_bytes(bytes).first(bytes.size() - 4));
  return bytes.replace(bytes.size() - 4, 4, i32(crc.value()));
}

/// The body of an insert without documents.
inline std::string insert_fields(std::string_view collection = "orders",
                                 std::string_view db = "shop") {
  return string_field("insert", collection) + string_field("$db", db);
}
inline std::string insert_sequence(const std::vector<std::string>& documents,
                                   std::uint32_t flags = 0) {
  return op_msg(body(doc(insert_fields())) + sequence("documents", documents), flags);
}
inline std::string insert_array(const std::vector<std::string>& documents,
                                std::uint32_t flags = 0) {
  return op_msg(body(doc(string_field("insert", "orders") + array_field("documents", documents) +
                         string_field("$db", "shop"))),
                flags);
}

/// A copy of the bytes in an allocation of exactly their size, so that sanitizers detect reads
/// beyond the end.
class Exact {
 public:
  explicit Exact(std::string_view bytes)
      : size_(bytes.size()), bytes_(std::make_unique<std::uint8_t[]>(bytes.size())) {
    std::memcpy(bytes_.get(), bytes.data(), bytes.size());
  }
  [[nodiscard]] Bytes view() const { return {bytes_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::uint8_t[]> bytes_;
};

}  // namespace idproxy::test
