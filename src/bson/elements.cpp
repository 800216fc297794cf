#include "idproxy/bson/elements.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace idproxy::bson {
namespace {

/// Size of a value of variable size; `rest` reaches to the end of the enclosing document.
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

constexpr std::int64_t kVariable = -1;
constexpr std::int64_t kUnknown = -2;

/// Size of a value by its type byte.
constexpr std::array<std::int64_t, 256> kFixedSizes = [] {
  std::array<std::int64_t, 256> sizes{};
  sizes.fill(kUnknown);
  const auto set = [&](Type type, std::int64_t size) {
    sizes[static_cast<std::uint8_t>(type)] = size;
  };
  for (const Type type : {Type::undefined, Type::null, Type::min_key, Type::max_key}) set(type, 0);
  set(Type::boolean, 1);
  set(Type::int32, 4);
  for (const Type type : {Type::number_double, Type::date, Type::timestamp, Type::int64}) {
    set(type, 8);
  }
  set(Type::object_id, 12);
  set(Type::decimal128, 16);
  for (const Type type : {Type::string, Type::document, Type::array, Type::binary, Type::regex,
                          Type::db_pointer, Type::code, Type::symbol, Type::code_with_scope}) {
    set(type, kVariable);
  }
  return sizes;
}();

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
  const auto* key = at_ + 1;
  // Keys are short: the loop ends before memchr() would have started. The document's final 00 stops
  // it.
  const auto* nul = key;
  while (nul < end_ && *nul != 0) ++nul;
  if (nul >= end_) return fail();
  element.key = {reinterpret_cast<const char*>(key), static_cast<std::size_t>(nul - key)};
  const Bytes rest(nul + 1, end_);
  std::int64_t size = kFixedSizes[static_cast<std::uint8_t>(element.type)];
  if (size == kVariable) size = variable_size(element.type, rest).value_or(kUnknown);
  if (size < 0 || size > static_cast<std::int64_t>(rest.size())) return fail();
  element.value = rest.first(static_cast<std::size_t>(size));
  at_ = element.end();
  return element;
}

bool well_formed(Bytes document, std::size_t levels) {
  std::vector<Elements> open;  // no recursion, because the input decides how deep it goes
  open.emplace_back(document);
  while (!open.empty()) {
    const auto element = open.back().next();
    if (!element) {
      if (open.back().malformed()) return false;
      open.pop_back();
      continue;
    }
    switch (element->type) {
      case Type::document:
      case Type::array:
        if (open.size() == levels) return false;
        open.emplace_back(element->value);
        break;
      case Type::boolean:
        if (element->value[0] > 1) return false;
        break;
      case Type::db_pointer:
      case Type::code_with_scope:
        return false;
      default:
        break;
    }
  }
  return true;
}

std::optional<Element> find(Bytes document, std::string_view key) {
  Elements elements(document);
  while (auto element = elements.next()) {
    if (element->key == key) return element;
  }
  return std::nullopt;
}

}  // namespace idproxy::bson
