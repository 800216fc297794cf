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
  for (const bson::Element& element : bson::Elements(hello)) {
    if (element.key != "compression") continue;
    if (found || !names_compressors(element)) return std::nullopt;
    found = element;
  }
  return found;
}

/// An element of a document, and what takes its place.
struct Edit {
  Bytes element;
  Buffer replacement{};
};

/// Cuts a list of compressors to the allowed ones, in its own order. Nothing if that is all of it.
std::optional<Edit> cut_compression(const bson::Element& compression, wire::Compressors allowed) {
  Edit edit{{compression.begin, compression.end()}};
  bson::append_head(edit.replacement, bson::Type::array, compression.key);
  bson::Scope array(edit.replacement);
  std::size_t kept = 0;
  std::size_t all = 0;
  for (const bson::Element& name : bson::Elements(compression.value)) {
    ++all;
    if (!allowed.has(wire::compressor_named(name.text()))) continue;
    bson::append_string(edit.replacement, std::to_string(kept++), name.text());
  }
  array.close();
  if (kept == all) return std::nullopt;
  if (kept == 0) edit.replacement.clear();
  return edit;
}

/// The changes of patch_hello_request(), in their order; none if the hello is malformed.
std::vector<Edit> edits_of(Bytes hello, X509 x509, wire::Compressors allowed) {
  std::vector<Edit> found;
  const auto compression = compression_in(hello);
  bson::Elements elements(hello);
  while (const auto element = elements.next()) {
    const bool login = x509 == X509::refused && element->key == "speculativeAuthenticate" &&
                       may_use_certificate(*element);
    if (login) found.push_back({{element->begin, element->end()}});
    if (!compression || element->begin != compression->begin) continue;
    if (auto cut = cut_compression(*compression, allowed)) found.push_back(*std::move(cut));
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
  for (const bson::Element& name : bson::Elements(element.value)) {
    const auto listener = members.listener_of(name.text());
    if (listener) bson::append_string(out, std::to_string(position++), *listener);
  }
  array.close();
}

}  // namespace

bool patch_hello_request(Bytes message, const Command& hello, X509 x509, wire::Compressors allowed,
                         wire::PatchedMessage& out) {
  const auto edits = edits_of(hello.document(), x509, allowed);
  if (edits.empty()) return false;
  std::size_t removed_size = 0;
  for (const Edit& edit : edits) removed_size += edit.element.size() - edit.replacement.size();

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
  for (const Edit& edit : edits) {
    out.keep(position, offset(edit.element.data()));
    out.add(edit.replacement.view());
    position = offset(edit.element.data()) + edit.element.size();
  }
  out.keep(position, message.size() - (hello.has_checksum ? 4 : 0));
  if (hello.has_checksum) out.add_checksum();
  return true;
}

wire::Compressors agreed_compressors(Bytes message) {
  wire::Compressors agreed;
  const auto list = compression_in(find_hello_document(message)->document);
  if (!list) return agreed;
  for (const bson::Element& name : bson::Elements(list->value))
    agreed.add(wire::compressor_named(name.text()));
  return agreed;
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
  for (const bson::Element& field : bson::Elements(answer->document)) {
    if (names_members(field.key) == NamesMembers::none) continue;
    mapped.clear();
    append_mapped(field, members, mapped);
    const Bytes before(field.begin, field.end());
    if (std::ranges::equal(before, mapped.view())) continue;
    changed = true;
    out.keep(position, offset(field.begin));
    out.add(mapped.view());
    position = offset(field.end());
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
