#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/spares.hpp"
#include "net/event_loop.hpp"

namespace idproxy::net {

/// The memory that the connections of one io thread share: a buffer that all of them read into, one
/// after the other, and buffers to hold messages in. Lives on one io thread.
///
/// The kernel clears each page that it hands out, which takes longer than copying a message into
/// it. So the pool keeps buffers while the thread is busy, and frees those that nobody has needed
/// for a while. Its timer runs only as long as there is something to free.
class BufferPool {
 public:
  static constexpr std::size_t kReadSize = std::size_t{256} * 1024;

  /// `most`: how many bytes to keep in spare buffers. Frees what nobody has needed for `patience`,
  /// at the latest after twice that time, and then calls `freed`.
  BufferPool(EventLoop& loop, std::size_t most, std::chrono::milliseconds patience,
             std::function<void()> freed)
      : most_(most), patience_(patience), freed_(std::move(freed)), timer_(loop) {}

  /// kReadSize bytes.
  [[nodiscard]] std::uint8_t* read_buffer() { return read_buffer_.get(); }

  /// An empty buffer with memory for `size` bytes, of which is_for() is true.
  [[nodiscard]] Buffer take(std::size_t size);
  /// Keeps the buffer, or frees it.
  void give_back(Buffer buffer);
  /// False if `buffer` has more than twice the memory that `size` bytes need. They must not wait in
  /// it for others, or memory would not be bounded by the size of the messages that are held.
  [[nodiscard]] static bool is_for(std::size_t size, const Buffer& buffer) {
    return buffer.capacity() <= 2 * std::max(size, kSmallest);
  }
  /// Bytes in spare buffers.
  [[nodiscard]] std::size_t spare() const { return spare_bytes_; }

 private:
  static constexpr std::size_t kSmallest = 1024;

  void free_later();
  void free_unused();

  const std::unique_ptr<std::uint8_t[]> read_buffer_ =
      std::make_unique_for_overwrite<std::uint8_t[]>(kReadSize);
  // By the power of two that their capacity reaches, from kSmallest on; a message has 48 MB.
  std::array<Spares<Buffer>, 17> spares_;
  std::size_t spare_bytes_ = 0;
  const std::size_t most_;
  const std::chrono::milliseconds patience_;
  const std::function<void()> freed_;
  Timer timer_;
};

}  // namespace idproxy::net
