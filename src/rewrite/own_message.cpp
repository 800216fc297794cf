#include "rewrite/own_message.hpp"

#include <algorithm>

#include "idproxy/bson/elements.hpp"
#include "idproxy/wire/checksum.hpp"

namespace idproxy::rewrite {

ReplyFrame::ReplyFrame(Buffer& out, std::int32_t request_id, std::int32_t response_to,
                       bool checksum)
    : out_(out), start_(out.size()), checksum_(checksum) {
  std::uint8_t* at = out.extend(wire::kSectionsOffset + 1);
  wire::write_header(at, {0, request_id, response_to, wire::OpCode::msg});
  store_u32(at + wire::kFlagsOffset, checksum ? wire::flag::kChecksumPresent : 0);
  at[wire::kSectionsOffset] = 0;
}

void ReplyFrame::close() {
  const std::size_t size = out_.size() - start_ + (checksum_ ? 4 : 0);
  store_i32(out_.data() + start_, static_cast<std::int32_t>(size));
  if (!checksum_) return;
  wire::Checksum checksum;
  checksum.add(out_.view().subspan(start_));
  store_u32(out_.extend(4), checksum.value());
}

void append_fields(Bytes from, std::initializer_list<std::string_view> names, Buffer& out) {
  for (const std::string_view name : names) {
    if (const auto field = bson::find(from, name)) bson::append_copy(out, *field);
  }
}

void OwnCommand::send(std::span<const std::string_view> kept, std::string_view db,
                      wire::PatchedMessage& out) {
  for (const bson::Element& field : bson::Elements(client_.body())) {
    if (std::ranges::find(kept, field.key) != kept.end()) bson::append_copy(out_, field);
  }
  bson::append_string(out_, "$db", db);
  document_.close();
  frame_.close();
  out.start({}, out_.size());
  out.add(out_.view());
}

}  // namespace idproxy::rewrite
