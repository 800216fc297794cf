// Input: a byte that chooses the compressor, two for the size that is stated, two for where the
// message is cut, then what is compressed. Inflating it must give exactly as much as is stated, and
// its beginning must be the same, however much has arrived. What is deflated must come back.

#include <algorithm>
#include <cstring>

#include "fuzz.hpp"
#include "idproxy/wire/compression.hpp"
#include "wire/snappy_prefix.hpp"

namespace {

using namespace idproxy;
using namespace fuzz;

constexpr std::size_t kParts = 5;

Buffer wrapped(wire::Compressor compressor, std::int32_t size, Bytes compressed) {
  Buffer message;
  std::uint8_t* const at = message.extend(wire::kCompressedOffset);
  const auto length = static_cast<std::int32_t>(wire::kCompressedOffset + compressed.size());
  wire::write_header(at, {length, 7, 0, wire::OpCode::compressed});
  store_i32(at + wire::kHeaderSize, static_cast<std::int32_t>(wire::OpCode::msg));
  store_i32(at + wire::kHeaderSize + 4, size);
  at[wire::kHeaderSize + 8] = static_cast<std::uint8_t>(compressor);
  message.append(compressed);
  return message;
}

wire::CompressedView view_of(const Buffer& message, std::size_t received) {
  const auto view =
      wire::CompressedView::read(wire::read_header(message.view()), message.view().first(received));
  require(view.has_value());
  return *view;
}

void same_beginning(Bytes part, Bytes whole) {
  require(part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin()));
}

void check_snappy(Bytes block, std::size_t size, Bytes whole, bool ok) {
  Buffer out;
  for (const std::size_t wanted : {std::size_t{1}, size / 2, size}) {
    if (wanted == 0 || wanted > size) continue;
    out.clear();
    const auto found = wire::decode_snappy_prefix(block, size, {out.extend(wanted), wanted});
    require(found.decoded <= wanted);
    if (ok) require(found.status == wire::SnappyPrefix::Status::there && found.decoded == wanted);
    if (ok) same_beginning(out.view(), whole);
  }
}

void round_trip(wire::Codec& codec, wire::Compressor compressor, Bytes content) {
  if (content.empty()) return;
  Buffer plain;
  wire::write_header(
      plain.extend(wire::kHeaderSize),
      {static_cast<std::int32_t>(wire::kHeaderSize + content.size()), 7, 8, wire::OpCode::msg});
  plain.append(content);
  Buffer deflated;
  codec.deflate(compressor, plain.view(), deflated);
  Buffer again;
  require(codec.inflate(view_of(deflated, deflated.size()), again));
  require(again.size() == plain.size());
  same_beginning(again.view(), plain.view());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kParts) return 0;
  static wire::Codec codec;  // its state must not leak from one message into the next
  const auto compressor = wire::kCompressors[data[0] % 3];
  const std::int32_t stated = 1 + (data[1] | data[2] << 8);
  const Bytes compressed(data + kParts, size - kParts);
  const Buffer message = wrapped(compressor, stated, compressed);
  const auto whole_size = wire::kHeaderSize + static_cast<std::size_t>(stated);

  Buffer whole;
  const bool ok = codec.inflate(view_of(message, message.size()), whole);
  require(whole.size() == whole_size);
  if (static_cast<std::size_t>(stated) > wire::Codec::kPrefix) {
    using Prefix = wire::Codec::Prefix;
    Buffer prefix;
    const auto found = codec.inflate_prefix(view_of(message, message.size()), prefix);
    if (ok) require(found == Prefix::there || found == Prefix::opaque);
    if (ok && found == Prefix::there) same_beginning(prefix.view(), whole.view());
    const std::size_t cut =
        (std::size_t{data[3]} | std::size_t{data[4]} << 8) % (compressed.size() + 1);
    Buffer part;
    const auto early = codec.inflate_prefix(view_of(message, wire::kCompressedOffset + cut), part);
    if (ok) require(early != Prefix::malformed);
    if (early == Prefix::there && found == Prefix::there) {
      same_beginning(part.view(), prefix.view());
    }
  }
  if (compressor == wire::Compressor::snappy) {
    check_snappy(compressed, static_cast<std::size_t>(stated),
                 whole.view().subspan(wire::kHeaderSize), ok);
  }
  round_trip(codec, compressor, compressed);
  return 0;
}
