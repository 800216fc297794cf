#include "wire/snappy_prefix.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace idproxy::wire {
namespace {

using Status = SnappyPrefix::Status;

/// Reads the block from its front.
class Input {
 public:
  explicit Input(Bytes block) : rest_(block) {}

  Bytes take(std::size_t most) {
    const Bytes taken = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  /// A little-endian number of up to four bytes; nothing if they have not been received.
  std::optional<std::uint64_t> number(std::size_t bytes) {
    if (rest_.size() < bytes) return std::nullopt;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{rest_[i]} << (8 * i);
    rest_ = rest_.subspan(bytes);
    return value;
  }

 private:
  Bytes rest_;
};

/// The length of the block, seven bits in each byte; nothing if its last byte has not been received
/// or it has more than 32 bits.
std::optional<std::uint64_t> read_length(Input& input, Status& otherwise) {
  std::uint64_t length = 0;
  for (unsigned shift = 0; shift <= 28; shift += 7) {
    const auto byte = input.number(1);
    otherwise = Status::need_more;
    if (!byte) return std::nullopt;
    length |= (*byte & 0x7F) << shift;
    if (*byte < 0x80) return length;
  }
  otherwise = Status::malformed;
  return std::nullopt;
}

/// A copy overlaps what it makes if its offset is shorter than its length, and then repeats it.
void copy_from_before(std::span<std::uint8_t> out, std::size_t at, std::size_t offset,
                      std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out[at + i] = out[at + i - offset];
}

}  // namespace

SnappyPrefix decode_snappy_prefix(Bytes block, std::size_t length, std::span<std::uint8_t> out) {
  Input input(block);
  Status otherwise{};
  const auto stated = read_length(input, otherwise);
  if (!stated) return {otherwise, 0};
  if (*stated != length) return {Status::malformed, 0};
  std::size_t at = 0;
  while (at < out.size()) {
    const auto tag = input.number(1);
    if (!tag) return {Status::need_more, at};
    const std::uint64_t kind = *tag & 3;
    const std::uint64_t upper = *tag >> 2;
    if (kind == 0) {
      const bool is_long = upper >= 60;
      const auto size = is_long ? input.number(upper - 59) : std::optional(upper);
      if (!size) return {Status::need_more, at};
      if (*size >= length - at) return {Status::malformed, at};
      const Bytes literal =
          input.take(std::min(static_cast<std::size_t>(*size) + 1, out.size() - at));
      std::memcpy(out.data() + at, literal.data(), literal.size());
      at += literal.size();
      if (literal.size() < *size + 1 && at < out.size()) return {Status::need_more, at};
      continue;
    }
    const auto low = input.number(kind == 3 ? 4 : static_cast<std::size_t>(kind));
    if (!low) return {Status::need_more, at};
    const std::uint64_t offset = kind == 1 ? (upper >> 3 << 8 | *low) : *low;
    const std::uint64_t size = kind == 1 ? (upper & 7) + 4 : upper + 1;
    if (offset == 0 || offset > at || size > length - at) return {Status::malformed, at};
    const auto copied = std::min(static_cast<std::size_t>(size), out.size() - at);
    copy_from_before(out, at, static_cast<std::size_t>(offset), copied);
    at += copied;
  }
  return {Status::there, at};
}

}  // namespace idproxy::wire
