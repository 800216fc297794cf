#include "idproxy/rewrite/plain_insert.hpp"

#include <cstring>

namespace idproxy::rewrite {
namespace {

// With larger documents, separate slices are cheaper than a copy.
constexpr std::size_t kSmallDocument = 1024;
// The head of an `_id` element: its type byte, filled in later, and its name.
constexpr std::string_view kIdHead("\0_id\0", 5);
// Room for what surrounds the documents: header, body and the section's head. They rarely need
// more.
constexpr std::size_t kAround = 512;

/// False if no document of the list has an element `_id` at any depth. The name of such an element
/// follows its type byte, and no type is a printable character, so "customer_id" does not match.
/// True means only that these bytes occur, perhaps in a string.
bool may_hold_id(Bytes documents) {
  const auto is_id = [](const std::uint8_t* p) {
    return std::memcmp(p, "_id", 4) == 0 && (p[-1] < 0x20 || p[-1] >= 0x7f);
  };
  // Works in blocks, because the compiler vectorizes their inner loop.
  constexpr std::ptrdiff_t kBlock = 256;
  const std::uint8_t* p = documents.data() + 1;
  const std::uint8_t* const end = documents.data() + documents.size();
  for (; end - p >= kBlock + 4; p += kBlock) {
    std::uint8_t hit = 0;
    for (std::ptrdiff_t i = 0; i < kBlock; ++i) {
      hit |= static_cast<std::uint8_t>((p[i] == '_') & (p[i + 1] == 'i'));
    }
    for (std::ptrdiff_t i = 0; hit != 0 && i < kBlock; ++i) {
      if (is_id(p + i)) return true;
    }
  }
  for (; end - p >= 4; ++p) {
    if (is_id(p)) return true;
  }
  return false;
}

std::size_t offset(Bytes message, Bytes part) {
  return static_cast<std::size_t>(part.data() - message.data());
}

}  // namespace

std::optional<PlainInsert> PlainInsert::recognise(const wire::OpMsgView& insert,
                                                  const BatchCommand& command) {
  if (command.in_array() || insert.has(wire::flag::kChecksumPresent)) return std::nullopt;
  std::size_t count = 0;
  for (Bytes rest = command.statements; !rest.empty(); ++count) {
    const auto document = bson::document_at(rest);
    if (!document || document->size() > kSmallDocument) return std::nullopt;
    rest = rest.subspan(document->size());
  }
  if (count == 0 || count > kMaxBatch || may_hold_id(command.statements)) return std::nullopt;
  return PlainInsert(insert, command, count);
}

void PlainInsert::patch(const ids::Values& values, wire::PatchedMessage& out) const {
  const std::size_t growth = documents_ * kIdHead.size() + values.bytes();
  const Bytes sized = section_.subspan(1);  // from the section's size on
  out.start(message_, list_.size() + growth + kAround);
  out.set_i32(out.add_i32(), static_cast<std::int64_t>(message_.size() + growth));
  out.keep(4, offset(message_, sized));
  out.set_i32(out.add_i32(), static_cast<std::int64_t>(sized.size() + growth));
  out.keep(offset(message_, sized) + 4, offset(message_, list_));
  std::uint8_t* to = out.add(list_.size() + growth);
  const std::uint8_t* from = list_.data();
  for (std::size_t i = 0; i < documents_; ++i) {
    const Bytes value = values[i];
    const auto size = static_cast<std::size_t>(load_i32(from));
    store_i32(to, static_cast<std::int32_t>(size + kIdHead.size() + value.size()));
    std::memcpy(to + 4, kIdHead.data(), kIdHead.size());
    to[4] = static_cast<std::uint8_t>(values.type());
    to += 4 + kIdHead.size();
    std::memcpy(to, value.data(), value.size());
    to += value.size();
    std::memcpy(to, from + 4, size - 4);
    to += size - 4;
    from += size;
  }
  out.keep(offset(message_, list_) + list_.size(), message_.size());
}

void PlainInsert::restore(Bytes patched, Buffer& original, ids::Values& values) {
  const auto insert = wire::OpMsgView::parse(patched);
  const wire::DocumentSequence& section = *insert->sequence("documents");
  const std::size_t list_at = offset(patched, section.documents);
  original.append(patched.first(list_at));
  Bytes rest = section.documents;
  while (!rest.empty()) {
    const Bytes document = *bson::document_at(rest);
    const bson::Element id = *bson::Elements(document).next();
    std::memcpy(values.add(id.type, id.value.size()), id.value.data(), id.value.size());
    const auto id_size = static_cast<std::size_t>(id.end() - id.begin);
    store_i32(original.extend(4), static_cast<std::int32_t>(document.size() - id_size));
    original.append({id.end(), document.data() + document.size()});
    rest = rest.subspan(document.size());
  }
  original.append(patched.subspan(list_at + section.documents.size()));
  const std::size_t shrunk = patched.size() - original.size();
  store_i32(original.data(), static_cast<std::int32_t>(original.size()));
  std::uint8_t* size = original.data() + offset(patched, section.whole) + 1;
  store_i32(size, load_i32(size) - static_cast<std::int32_t>(shrunk));
}

}  // namespace idproxy::rewrite
