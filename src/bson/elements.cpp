#include "idproxy/bson/elements.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace idproxy::bson {
namespace {

/// Size of a value whose size is not fixed; `rest` reaches to the end of the enclosing document.
std::optional<std::int64_t> variable_size(Type type, Bytes rest) {
  const auto size = static_cast<std::int64_t>(rest.size());
  if (type == Type::regex) {
    const auto* pattern_end = std::memchr(rest.data(), 0, rest.size());
    if (pattern_end == nullptr) return std::nullopt;
    const auto after = static_cast<const std::uint8_t*>(pattern_end) + 1 - rest.data();
    const auto* options_end =
        std::memchr(rest.data() + after, 0, rest.size() - static_cast<std::size_t>(after));
    if (options_end == nullptr) return std::nullopt;
    return static_cast<const std::uint8_t*>(options_end) + 1 - rest.data();
  }
  if (size < 4) return std::nullopt;
  const std::int64_t length = load_i32(rest.data());
  const auto ends_with_nul = [&](std::int64_t total) {
    return total <= size && rest[static_cast<std::size_t>(total) - 1] == 0;
  };
  switch (type) {
    case Type::string:
    case Type::symbol:
    case Type::code:
      if (length < 1 || !ends_with_nul(4 + length)) return std::nullopt;
      return 4 + length;
    case Type::db_pointer:
      if (length < 1 || !ends_with_nul(4 + length)) return std::nullopt;
      return 4 + length + 12;
    case Type::document:
    case Type::array:
      if (length < 5 || !ends_with_nul(length)) return std::nullopt;
      return length;
    case Type::code_with_scope:  // int32 total, string, document: at least 4 + 5 + 5
      if (length < 14 || !ends_with_nul(length)) return std::nullopt;
      return length;
    case Type::binary:
      if (length < 0) return std::nullopt;
      return 4 + 1 + length;
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> value_size(Type type, Bytes rest) {
  switch (type) {
    case Type::undefined:
    case Type::null:
    case Type::min_key:
    case Type::max_key:
      return 0;
    case Type::boolean:
      return 1;
    case Type::int32:
      return 4;
    case Type::number_double:
    case Type::date:
    case Type::timestamp:
    case Type::int64:
      return 8;
    case Type::object_id:
      return 12;
    case Type::decimal128:
      return 16;
    default:
      return variable_size(type, rest);
  }
}

}  // namespace

std::optional<std::int64_t> Element::as_integer() const {
  switch (type) {
    case Type::int32:
      return load_i32(value.data());
    case Type::int64:
      return load_i64(value.data());
    case Type::boolean:
      return value[0] != 0 ? 1 : 0;
    case Type::number_double: {
      const auto number = std::bit_cast<double>(load_i64(value.data()));
      if (std::abs(number) > 9007199254740992.0 || std::trunc(number) != number)
        return std::nullopt;
      return static_cast<std::int64_t>(number);
    }
    default:
      return std::nullopt;
  }
}

bool Element::truthy() const {
  if (type == Type::number_double) return std::bit_cast<double>(load_i64(value.data())) != 0;
  return as_integer().value_or(0) != 0;
}

std::optional<Bytes> document_at(Bytes bytes) {
  if (bytes.size() < kMinDocument) return std::nullopt;
  const std::int64_t length = load_i32(bytes.data());
  if (length < static_cast<std::int64_t>(kMinDocument)) return std::nullopt;
  if (length > static_cast<std::int64_t>(bytes.size())) return std::nullopt;
  if (bytes[static_cast<std::size_t>(length) - 1] != 0) return std::nullopt;
  return bytes.first(static_cast<std::size_t>(length));
}

std::optional<Element> Elements::next() {
  if (malformed_ || at_ == end_) return std::nullopt;
  Element element;
  element.begin = at_;
  element.type = static_cast<Type>(*at_);
  if (*at_ == 0) return fail();
  const auto* key = at_ + 1;
  const auto* nul =
      static_cast<const std::uint8_t*>(std::memchr(key, 0, static_cast<std::size_t>(end_ - key)));
  if (nul == nullptr) return fail();
  element.key = {reinterpret_cast<const char*>(key), static_cast<std::size_t>(nul - key)};
  const Bytes rest(nul + 1, end_);
  const auto size = value_size(element.type, rest);
  if (!size || *size > static_cast<std::int64_t>(rest.size())) return fail();
  element.value = rest.first(static_cast<std::size_t>(*size));
  at_ = element.end();
  return element;
}

std::optional<Element> find(Bytes document, std::string_view key) {
  Elements elements(document);
  while (auto element = elements.next()) {
    if (element->key == key) return element;
  }
  return std::nullopt;
}

}  // namespace idproxy::bson
