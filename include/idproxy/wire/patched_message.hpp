#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/wire/messages.hpp"

namespace idproxy::wire {

/// A message made of slices of another one, with new bytes in between, so that rewriting copies the
/// new bytes and not those that stay. Holds positions, not pointers: the original may move in
/// memory.
///
///   patched.start(original);
///   const auto length = patched.add_i32();     // a place to fill in once it is known
///   patched.keep(4, 120);
///   std::memcpy(patched.add(17), element, 17);
///   patched.keep(120, original.size());
///   patched.set_i32(length, patched.size());
class PatchedMessage {
 public:
  /// Starts a new message; keeps the memory. `expected`: number of bytes that will be added or
  /// copied.
  void start(Bytes original, std::size_t expected = 0);

  /// True if keep() copies so many bytes: for the kernel, one more slice costs about as much.
  [[nodiscard]] static bool copies(std::size_t bytes) { return bytes < 1024; }
  /// Appends the original's bytes [from, to); `from` must not be before the end of an earlier
  /// slice.
  void keep(std::size_t from, std::size_t to);
  /// Appends `n` new bytes, which the caller must write at once: the pointer is valid until the
  /// next call.
  std::uint8_t* add(std::size_t n) { return added_.extend(n); }
  void add(Bytes bytes);
  /// Appends four bytes and returns their place for set_i32().
  std::size_t add_i32() { return static_cast<std::size_t>(add(4) - added_.data()); }
  void set_i32(std::size_t place, std::int64_t value) {
    store_i32(added_.data() + place, static_cast<std::int32_t>(value));
  }
  /// Appends the CRC-32C of all bytes so far.
  void add_checksum();

  [[nodiscard]] std::size_t size() const { return kept_ + added_.size(); }
  /// False if all bytes have been copied: the original is then no longer needed.
  [[nodiscard]] bool borrows() const { return !pieces_.empty(); }
  /// Allocated memory for new bytes, in bytes.
  [[nodiscard]] std::size_t capacity() const { return added_.capacity(); }

  /// Fills `out` with the slices from byte `position` on, as many as fit; returns their number.
  std::size_t gather(Bytes original, std::size_t position, std::span<iovec> out) const;
  /// Appends the bytes from `position` on to `out`.
  void copy(Bytes original, std::size_t position, Buffer& out) const;

 private:
  /// New bytes, then a slice of the original.
  struct Piece {
    std::uint32_t added_end;  // position in added_; the new bytes begin where those before it end
    std::uint32_t from;       // position in the original
    std::uint32_t length;
  };
  template <class Use>
  void for_each_slice(Bytes original, Use use) const;

  std::vector<Piece> pieces_;  // behind them, the rest of added_
  Buffer added_;
  std::size_t kept_ = 0;  // bytes of the original
  Bytes original_;        // only while the message is built
};

}  // namespace idproxy::wire
