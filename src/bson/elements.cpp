#include "idproxy/bson/elements.hpp"

#include <bit>
#include <cmath>

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

std::optional<Element> Elements::next() {
  Element element;
  return next(element) ? std::optional(element) : std::nullopt;
}

const std::uint8_t* Elements::end_of_rare_value(const std::uint8_t* nul) const {
  return nul < end_ ? end_of_value(static_cast<Type>(*at_), nul + 1, end_) : nullptr;
}

Form form_of(Bytes document, std::size_t levels) {
  Form form = Form::good;
  std::vector<Elements> open;  // no recursion, because the input decides how deep it goes
  open.emplace_back(document);
  while (!open.empty()) {
    const auto element = open.back().next();
    if (!element) {
      if (open.back().malformed()) return Form::malformed;
      open.pop_back();
      continue;
    }
    switch (element->type) {
      case Type::document:
      case Type::array:
        if (open.size() == levels) return Form::malformed;
        open.emplace_back(element->value);
        break;
      case Type::boolean:
        if (element->value[0] > 1) return Form::malformed;
        break;
      case Type::db_pointer:
      case Type::code_with_scope:
        form = Form::deprecated;
        break;
      default:
        break;
    }
  }
  return form;
}

std::optional<Element> find(Bytes document, std::string_view key) {
  Elements elements(document);
  while (auto element = elements.next()) {
    if (element->key == key) return element;
  }
  return std::nullopt;
}

std::optional<Element> find(Bytes document, std::string_view key, Type type) {
  auto found = find(document, key);
  return found && found->type == type ? found : std::nullopt;
}

std::optional<std::int64_t> find_integer(Bytes document, std::string_view key) {
  const auto found = find(document, key);
  return found ? found->as_integer() : std::nullopt;
}

std::int64_t integer_in(Bytes document, std::string_view key) {
  return find_integer(document, key).value_or(0);
}

bool is_true(Bytes document, std::string_view key) {
  return integer_in(document, key) != 0;
}

std::string_view text_in(Bytes document, std::string_view key) {
  const auto found = find(document, key, Type::string);
  return found ? found->text() : std::string_view();
}

std::optional<Bytes> document_in(Bytes document, std::string_view key) {
  const auto found = find(document, key, Type::document);
  return found ? std::optional(found->value) : std::nullopt;
}

std::vector<Bytes> documents_in(Bytes document, std::string_view key) {
  std::vector<Bytes> documents;
  const auto array = find(document, key, Type::array);
  if (!array) return documents;
  for (const Element& element : Elements(array->value)) {
    if (element.type == Type::document) documents.push_back(element.value);
  }
  return documents;
}

}  // namespace idproxy::bson
