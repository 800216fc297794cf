#include "request_reader.hpp"

#include <cstddef>
#include <stdexcept>

#include "document.hpp"
#include "element_reader.hpp"
#include "work.hpp"

namespace idproxy::bench {
namespace {

constexpr std::size_t kFlagBytes = 4;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kSmallestDocument = 5;
constexpr std::int32_t kLargestMessage = 48'000'000;

/// Takes a part off `bytes` that starts with its own length.
std::optional<std::string_view> take_sized(std::string_view& bytes) {
  if (bytes.size() < kLengthBytes) return std::nullopt;
  const auto size = load_raw<std::int32_t>(bytes, 0);
  if (size < static_cast<std::int32_t>(kSmallestDocument)) return std::nullopt;
  if (static_cast<std::size_t>(size) > bytes.size()) return std::nullopt;
  const std::string_view part = bytes.substr(0, static_cast<std::size_t>(size));
  bytes.remove_prefix(part.size());
  return part;
}

bool read_body(std::string_view body, Request& request) {
  try {
    ElementReader elements(body);
    const auto first = elements.next();
    if (!first) return false;
    request.command = first->name;
    if (first->type == '\x02') {
      request.collection =
          first->value.substr(kLengthBytes, first->value.size() - kLengthBytes - 1);
    }
    if (request.command != "insert") return true;
    const auto array = find(body, "documents");
    if (array && array->type == '\x04') request.array = array->value;
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

bool read_section(std::string_view& sections, Request& request) {
  const char kind = sections.front();
  sections.remove_prefix(1);
  const auto part = take_sized(sections);
  if (!part) return false;
  if (kind == 0) return read_body(*part, request);
  const std::size_t identifier_end = part->find('\0', kLengthBytes);
  if (kind != 1 || identifier_end == std::string_view::npos) return false;
  request.documents = part->substr(identifier_end + 1);
  return true;
}

}  // namespace

std::optional<std::string_view> first_message(std::string_view bytes) {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  const auto length = load_raw<std::int32_t>(bytes, 0);
  if (length < static_cast<std::int32_t>(kHeaderBytes) || length > kLargestMessage) {
    return std::string_view();
  }
  const auto size = static_cast<std::size_t>(length);
  if (bytes.size() < size) return std::nullopt;
  return bytes.substr(0, size);
}

std::optional<Request> read_request(std::string_view message) {
  if (message.size() < kHeaderBytes + kFlagBytes) return std::nullopt;
  if (load_raw<std::int32_t>(message, 12) != kOpMsg) return std::nullopt;
  Request request;
  request.request_id = load_raw<std::int32_t>(message, 4);
  std::string_view sections = message.substr(kHeaderBytes + kFlagBytes);
  while (!sections.empty()) {
    if (!read_section(sections, request)) return std::nullopt;
  }
  return request;
}

std::optional<std::string_view> take_document(std::string_view& documents) {
  return take_sized(documents);
}

}  // namespace idproxy::bench
