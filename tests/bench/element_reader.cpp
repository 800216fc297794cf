#include "element_reader.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "document.hpp"
#include "request_reader.hpp"
#include "work.hpp"

namespace idproxy::bench {
namespace {

constexpr std::size_t kLengthBytes = sizeof(std::int32_t);
constexpr std::size_t kBodyAt = kHeaderBytes + sizeof(std::uint32_t) + 1;

[[noreturn]] void throw_malformed() {
  throw std::runtime_error("a reply is not well-formed");
}

std::size_t length_at(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) throw_malformed();
  const auto length = load_raw<std::int32_t>(bytes, 0);
  if (length < 0) throw_malformed();
  return static_cast<std::size_t>(length);
}

std::size_t size_of_value(char type, std::string_view bytes) {
  switch (type) {
    case '\x01':  // double
    case '\x09':  // date
    case '\x11':  // timestamp
    case '\x12':  // int64
      return 8;
    case '\x02':  // string
      return kLengthBytes + length_at(bytes);
    case '\x03':  // document
    case '\x04':  // array
      return length_at(bytes);
    case '\x05':  // binary
      return kLengthBytes + 1 + length_at(bytes);
    case '\x07':  // ObjectId
      return 12;
    case '\x08':  // boolean
      return 1;
    case '\x0A':  // null
      return 0;
    case '\x10':  // int32
      return 4;
    case '\x13':  // decimal
      return 16;
    default:
      throw_malformed();
  }
}

}  // namespace

ElementReader::ElementReader(std::string_view document) : rest_(document) {
  if (length_at(document) != document.size() || document.size() <= kLengthBytes) throw_malformed();
  rest_.remove_prefix(kLengthBytes);
}

std::optional<Element> ElementReader::next() {
  if (rest_.empty()) throw_malformed();
  Element element;
  element.type = take(1).front();
  if (element.type == '\0') return std::nullopt;
  element.name = take(rest_.find('\0'));
  take(1);
  element.value = take(size_of_value(element.type, rest_));
  return element;
}

std::string_view ElementReader::take(std::size_t size) {
  if (size > rest_.size()) throw_malformed();
  const std::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

std::optional<Element> find(std::string_view document, std::string_view name) {
  ElementReader elements(document);
  while (const auto element = elements.next()) {
    if (element->name == name) return element;
  }
  return std::nullopt;
}

std::int64_t integer_at(std::string_view document, std::string_view name) {
  const auto element = find(document, name);
  switch (element ? element->type : '\0') {
    case '\x01':
      return static_cast<std::int64_t>(load_raw<double>(element->value, 0));
    case '\x08':
      return element->value.front();
    case '\x10':
      return load_raw<std::int32_t>(element->value, 0);
    case '\x12':
      return load_raw<std::int64_t>(element->value, 0);
    default:
      throw std::runtime_error("a reply has no number " + std::string(name));
  }
}

std::string_view body_of(std::string_view message) {
  std::string_view body = message.substr(std::min(kBodyAt, message.size()));
  const auto document = take_document(body);
  if (!document || !body.empty() || message[kBodyAt - 1] != '\0') throw_malformed();
  return *document;
}

}  // namespace idproxy::bench
