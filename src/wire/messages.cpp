#include "idproxy/wire/messages.hpp"

#include <algorithm>

namespace idproxy::wire {

FrameReader::Front FrameReader::front(Bytes bytes) const {
  if (left_ > 0) {
    const auto there = static_cast<std::int64_t>(bytes.size());
    return {Kind::inside, {}, static_cast<std::size_t>(std::min(left_, there))};
  }
  if (bytes.size() < kHeaderSize) return {Kind::need_more};
  const MsgHeader header = read_header(bytes);
  const std::int64_t length = header.message_length;
  // mongod also closes the connection at a length of exactly 16, but that depends on the opcode.
  if (length < static_cast<std::int64_t>(kHeaderSize) || length > kMaxMessageSize) {
    return {Kind::malformed, header};
  }
  return {Kind::begin, header};
}

}  // namespace idproxy::wire
