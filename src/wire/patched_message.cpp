#include "idproxy/wire/patched_message.hpp"

#include <algorithm>
#include <cassert>

#include "idproxy/wire/checksum.hpp"

namespace idproxy::wire {
void PatchedMessage::start(Bytes original, std::size_t expected) {
  pieces_.clear();
  added_.clear();
  added_.reserve(expected);
  size_ = 0;
  original_ = original;
}

void PatchedMessage::append(bool original, std::size_t from, std::size_t length) {
  size_ += length;
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.original == original && last.from + last.length == from) {
      last.length += static_cast<std::uint32_t>(length);
      return;
    }
  }
  pieces_.push_back(
      {static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(length), original});
}

void PatchedMessage::keep(std::size_t from, std::size_t to) {
  assert(from <= to && to <= original_.size());
  if (from == to) return;
  if (copies(to - from)) return add(original_.subspan(from, to - from));
  append(true, from, to - from);
}

std::uint8_t* PatchedMessage::add(std::size_t n) {
  const std::size_t from = added_.size();
  std::uint8_t* at = added_.extend(n);
  append(false, from, n);
  return at;
}

void PatchedMessage::add(Bytes bytes) {
  if (bytes.empty()) return;
  std::memcpy(add(bytes.size()), bytes.data(), bytes.size());
}

void PatchedMessage::add_checksum() {
  Checksum checksum;
  for (const Piece& piece : pieces_) checksum.add(bytes(piece, original_));
  store_u32(add(4), checksum.value());
}

Bytes PatchedMessage::bytes(const Piece& piece, Bytes original) const {
  return (piece.original ? original : added_.view()).subspan(piece.from, piece.length);
}

bool PatchedMessage::borrows() const {
  return std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.original; });
}

std::size_t PatchedMessage::gather(Bytes original, std::size_t position,
                                   std::span<iovec> out) const {
  std::size_t filled = 0;
  for (const Piece& piece : pieces_) {
    if (position >= piece.length) {
      position -= piece.length;
      continue;
    }
    if (filled == out.size()) break;
    const Bytes slice = bytes(piece, original).subspan(position);
    position = 0;
    // iovec is not const-correct; the kernel only reads.
    out[filled++] = {const_cast<std::uint8_t*>(slice.data()), slice.size()};
  }
  return filled;
}

void PatchedMessage::copy(Bytes original, std::size_t position, Buffer& out) const {
  for (const Piece& piece : pieces_) {
    if (position >= piece.length) {
      position -= piece.length;
      continue;
    }
    out.append(bytes(piece, original).subspan(position));
    position = 0;
  }
}

}  // namespace idproxy::wire
