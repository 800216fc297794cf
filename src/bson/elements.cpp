#include "idproxy/bson/elements.hpp"

#include <bit>
#include <cmath>
#include <vector>

#include "end_of_key.hpp"
#include "value_size.hpp"

namespace idproxy::bson {
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
  const auto* nul = end_of_key(key, end_);
  if (nul >= end_) return fail();
  element.key = {reinterpret_cast<const char*>(key), static_cast<std::size_t>(nul - key)};
  const auto* const value_end = end_of_value(element.type, nul + 1, end_);
  if (value_end == nullptr) return fail();
  element.value = {nul + 1, value_end};
  at_ = value_end;
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
