#include "idproxy/rewrite/hello.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/bson/builder.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/rewrite/hello_reply.hpp"
#include "rewrite/login.hpp"

namespace idproxy::rewrite {
namespace {

/// True for an array of strings, the only form of `compression` that mongod accepts.
bool names_compressors(const bson::Element& element) {
  if (element.type != bson::Type::array) return false;
  bson::Elements names(element.value);
  while (const auto name = names.next()) {
    if (name->type != bson::Type::string) return false;
  }
  return !names.malformed();
}

/// Finds `compression`. Nothing if mongod will refuse it because it has another form or occurs
/// twice.
std::optional<bson::Element> compression_in(Bytes hello) {
  std::optional<bson::Element> found;
  bson::Elements elements(hello);
  while (const auto element = elements.next()) {
    if (element->key != "compression") continue;
    if (found || !names_compressors(*element)) return std::nullopt;
    found = element;
  }
  return found;
}

/// The elements that patch_hello_request() removes, in their order; none if the hello is malformed.
std::vector<Bytes> not_to_be_asked(Bytes hello, X509 x509) {
  std::vector<Bytes> found;
  const auto compression = compression_in(hello);
  bson::Elements elements(hello);
  while (const auto element = elements.next()) {
    const bool login = x509 == X509::refused && element->key == "speculativeAuthenticate" &&
                       may_use_certificate(*element);
    if (login || (compression && element->begin == compression->begin)) {
      found.emplace_back(element->begin, element->end());
    }
  }
  if (elements.malformed()) found.clear();
  return found;
}

/// Appends the element with listeners in place of its members.
void append_mapped(const bson::Element& element, const Members& members, Buffer& out) {
  if (names_members(element.key) == NamesMembers::one) {
    const auto listener = members.listener_of(element.text());
    if (listener) bson::append_string(out, element.key, *listener);
    return;
  }
  bson::append_head(out, bson::Type::array, element.key);
  bson::Scope array(out);
  std::size_t position = 0;
  bson::Elements names(element.value);
  while (const auto name = names.next()) {
    const auto listener = members.listener_of(name->text());
    if (listener) bson::append_string(out, std::to_string(position++), *listener);
  }
  array.close();
}

}  // namespace

bool patch_hello_request(Bytes message, const Command& hello, X509 x509,
                         wire::PatchedMessage& out) {
  const auto removed = not_to_be_asked(hello.document(), x509);
  if (removed.empty()) return false;
  std::size_t removed_size = 0;
  for (const Bytes element : removed) removed_size += element.size();

  const auto offset = [&](const std::uint8_t* at) {
    return static_cast<std::size_t>(at - message.data());
  };
  const auto shrink = [&](std::size_t old_size) {
    out.set_i32(out.add_i32(), static_cast<std::int64_t>(old_size - removed_size));
  };
  out.start(message);
  shrink(message.size());
  std::size_t position = 4;
  for (const Bytes enclosing : hello.documents) {
    out.keep(position, offset(enclosing.data()));
    shrink(enclosing.size());
    position = offset(enclosing.data()) + 4;
  }
  for (const Bytes element : removed) {
    out.keep(position, offset(element.data()));
    position = offset(element.data()) + element.size();
  }
  out.keep(position, message.size() - (hello.has_checksum ? 4 : 0));
  if (hello.has_checksum) out.add_checksum();
  return true;
}

bool patch_hello_reply(Bytes message, const Members& members, wire::PatchedMessage& out) {
  const auto answer = find_hello_document(message);
  const auto offset = [&](const std::uint8_t* at) {
    return static_cast<std::size_t>(at - message.data());
  };
  const std::size_t start = offset(answer->document.data());
  std::size_t size = answer->document.size();
  bool changed = false;
  out.start(message);
  const std::size_t message_length = out.add_i32();
  out.keep(4, start);
  const std::size_t document_length = out.add_i32();
  std::size_t position = start + 4;
  Buffer mapped;
  bson::Elements fields(answer->document);
  while (const auto field = fields.next()) {
    if (names_members(field->key) == NamesMembers::none) continue;
    mapped.clear();
    append_mapped(*field, members, mapped);
    const Bytes before(field->begin, field->end());
    if (std::ranges::equal(before, mapped.view())) continue;
    changed = true;
    out.keep(position, offset(field->begin));
    out.add(mapped.view());
    position = offset(field->end());
    size = size - before.size() + mapped.size();
  }
  out.keep(position, message.size() - (answer->has_checksum ? 4 : 0));
  out.set_i32(document_length, static_cast<std::int64_t>(size));
  out.set_i32(message_length,
              static_cast<std::int64_t>(message.size() - answer->document.size() + size));
  if (answer->has_checksum) out.add_checksum();
  return changed;
}

}  // namespace idproxy::rewrite
