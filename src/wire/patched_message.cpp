#include "idproxy/wire/patched_message.hpp"

#include <algorithm>
#include <cassert>

#include "idproxy/wire/checksum.hpp"

namespace idproxy::wire {

/// Calls `use` with each slice of the message in order, until it returns false. Slices may be
/// empty.
template <class Use>
void PatchedMessage::for_each_slice(Bytes original, Use use) const {
  std::size_t at = 0;
  for (const Piece& piece : pieces_) {
    if (!use(added_.view().subspan(at, piece.added_end - at))) return;
    if (!use(original.subspan(piece.from, piece.length))) return;
    at = piece.added_end;
  }
  use(added_.view().subspan(at));
}

void PatchedMessage::start(Bytes original, std::size_t expected) {
  pieces_.clear();
  added_.clear();
  added_.reserve(expected);
  kept_ = 0;
  original_ = original;
}

void PatchedMessage::keep(std::size_t from, std::size_t to) {
  assert(from <= to && to <= original_.size());
  if (from == to) return;
  const std::size_t length = to - from;
  if (copies(length)) return add(original_.subspan(from, length));
  kept_ += length;
  const bool goes_on = !pieces_.empty() && pieces_.back().added_end == added_.size() &&
                       pieces_.back().from + pieces_.back().length == from;
  if (goes_on) {
    pieces_.back().length += static_cast<std::uint32_t>(length);
    return;
  }
  pieces_.push_back({static_cast<std::uint32_t>(added_.size()), static_cast<std::uint32_t>(from),
                     static_cast<std::uint32_t>(length)});
}

void PatchedMessage::add(Bytes bytes) {
  if (bytes.empty()) return;
  std::memcpy(add(bytes.size()), bytes.data(), bytes.size());
}

void PatchedMessage::add_checksum() {
  Checksum checksum;
  for_each_slice(original_, [&](Bytes slice) {
    checksum.add(slice);
    return true;
  });
  store_u32(add(4), checksum.value());
}

std::size_t PatchedMessage::gather(Bytes original, std::size_t position,
                                   std::span<iovec> out) const {
  std::size_t filled = 0;
  for_each_slice(original, [&](Bytes slice) {
    if (position >= slice.size()) {
      position -= slice.size();
      return true;
    }
    if (filled == out.size()) return false;
    slice = slice.subspan(position);
    position = 0;
    // iovec is not const-correct; the kernel only reads.
    out[filled++] = {const_cast<std::uint8_t*>(slice.data()), slice.size()};
    return true;
  });
  return filled;
}

void PatchedMessage::copy(Bytes original, std::size_t position, Buffer& out) const {
  for_each_slice(original, [&](Bytes slice) {
    const std::size_t skipped = std::min(position, slice.size());
    position -= skipped;
    out.append(slice.subspan(skipped));
    return true;
  });
}

}  // namespace idproxy::wire
