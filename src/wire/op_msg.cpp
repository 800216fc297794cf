#include "idproxy/wire/op_msg.hpp"

#include "idproxy/bson/element_ends.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/checksum.hpp"

namespace idproxy::wire {
namespace {

constexpr std::size_t kChecksumSize = 4;
constexpr std::uint32_t kKnownFlags =
    flag::kChecksumPresent | flag::kMoreToCome | flag::kExhaustAllowed;

bool checksum_fits(Bytes message) {
  const Bytes covered = message.first(message.size() - kChecksumSize);
  Checksum checksum;
  checksum.add(covered);
  return checksum.value() == load_u32(covered.data() + covered.size());
}

/// `section`: of kind 1, as long as it states. Nothing if its identifier has no end.
std::optional<DocumentSequence> read_sequence(Bytes section) {
  const Bytes content = section.subspan(5);
  const std::uint8_t* const end = content.data() + content.size();
  const std::uint8_t* const nul = bson::end_of_key(content.data(), end);
  if (nul == end) return std::nullopt;
  const auto length = static_cast<std::size_t>(nul - content.data());
  return DocumentSequence{as_text(content.first(length)), section, content.subspan(length + 1)};
}

}  // namespace

bool expects_reply(const MsgHeader& header, Bytes front) {
  switch (header.op_code) {
    case OpCode::msg:
      return !has_flag(header, front, flag::kMoreToCome);
    case OpCode::query:
    case OpCode::get_more:
      return true;
    default:
      return false;
  }
}

Result<OpMsgView> OpMsgView::parse(Bytes message) {
  OpMsgView view;
  view.message_ = message;
  if (message.size() < kSectionsOffset + 1 + bson::kMinDocument) return Errc::too_short;
  if (view.has(flag::kRequiredBits & ~kKnownFlags)) return Errc::unknown_flag;
  Bytes rest = message.subspan(kSectionsOffset);
  if (view.has(flag::kChecksumPresent)) {
    if (!checksum_fits(message)) return Errc::bad_checksum;
    rest = rest.first(rest.size() - kChecksumSize);
  }
  while (!rest.empty()) {
    if (const auto fault = view.add_section(rest); fault != Errc{}) return fault;
  }
  if (view.body_.size == 0) return Errc::no_body;
  return view;
}

Errc OpMsgView::add_section(Bytes& rest) {
  if (rest[0] == 0) {
    const auto document = bson::document_at(rest.subspan(1));
    if (!document) return Errc::bad_size;
    if (body_.size != 0) return Errc::two_bodies;
    body_ = Extent::of(*document, message_.data());
    rest = rest.subspan(1 + document->size());
    return {};
  }
  if (rest[0] != 1) return Errc::unknown_kind;
  if (rest.size() < 5) return Errc::bad_size;
  const std::int64_t size = load_i32(rest.data() + 1);
  if (size < 5 || size > static_cast<std::int64_t>(rest.size()) - 1) return Errc::bad_size;
  const auto whole = static_cast<std::size_t>(size) + 1;
  const Bytes section = rest.first(whole);
  rest = rest.subspan(whole);
  return add_sequence(section);
}

Errc OpMsgView::add_sequence(Bytes section) {
  const auto read = read_sequence(section);
  if (!read) return Errc::bad_size;
  if (sequence(read->identifier)) return Errc::two_sequences;
  if (sequence_count_ == sequences_.size()) return Errc::too_many_sequences;
  sequences_[sequence_count_++] = static_cast<std::uint32_t>(section.data() - message_.data());
  return {};
}

std::optional<DocumentSequence> OpMsgView::sequence(std::string_view identifier) const {
  for (std::size_t i = 0; i < sequence_count_; ++i) {
    const Bytes rest = message_.subspan(sequences_[i]);
    const auto size = static_cast<std::size_t>(load_i32(rest.data() + 1));
    const auto read = read_sequence(rest.first(1 + size));
    if (read && read->identifier == identifier) return read;
  }
  return std::nullopt;
}

}  // namespace idproxy::wire
