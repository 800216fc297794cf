#include "net/inflation.hpp"

#include <algorithm>

namespace idproxy::net {

Inflation::Peeked Inflation::peek(const wire::CompressedView& view, std::size_t received,
                                  std::size_t length, Buffer& out) {
  using Kind = Peeked::Kind;
  using Prefix = wire::Codec::Prefix;
  constexpr std::size_t kFirst = std::size_t{4} * 1024;
  const auto size = static_cast<std::size_t>(view.original.message_length);
  if (size <= wire::kHeaderSize + wire::Codec::kPrefix) return {Kind::whole};
  switch (codec.inflate_prefix(view, out)) {
    case Prefix::there:
      return {Kind::there};
    case Prefix::need_more:
      if (received == length) break;
      if (received >= kMostOfPrefix) return {Kind::whole};
      // Twice as much each time, so that a slow client does not have it inflated for each byte.
      return {Kind::need, std::min({length, std::max(2 * received, kFirst), kMostOfPrefix})};
    case Prefix::opaque:
      return {Kind::whole};
    case Prefix::malformed:
      break;
  }
  return {Kind::malformed};
}

Bytes Inflation::deflate(wire::Compressor compressor, Bytes message) {
  if (compressor == wire::Compressor::none || message.empty()) return message;
  codec.deflate(compressor, message, deflated_);
  const auto longest = static_cast<std::size_t>(wire::kMaxMessageSize);
  return deflated_.size() > longest ? message : deflated_.view();
}

void Inflation::trim() {
  constexpr std::size_t kKept = std::size_t{256} * 1024;
  for (Buffer* each : {&request, &reply, &plain, &deflated_}) {
    if (each->capacity() > kKept) *each = Buffer();
  }
}

}  // namespace idproxy::net
