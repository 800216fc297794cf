#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "idproxy/base/buffer.hpp"

namespace idproxy::net {

/// The memory that the connections of one io thread share: a buffer that all of them read into, one
/// after the other, and buffers to collect messages in. Not thread-safe.
class BufferPool {
 public:
  static constexpr std::size_t kReadSize = std::size_t{256} * 1024;

  /// kReadSize bytes.
  [[nodiscard]] std::uint8_t* read_buffer() { return read_buffer_.get(); }

  /// An empty buffer to collect a message in; reuses one that was given back, if there is one.
  [[nodiscard]] Buffer take() {
    if (spare_.empty()) return {};
    Buffer buffer = std::move(spare_.back());
    spare_.pop_back();
    spare_bytes_ -= buffer.capacity();
    return buffer;
  }
  void give_back(Buffer buffer) {
    // For a few inserts of a thousand documents at a time.
    constexpr std::size_t kSpareBuffers = 16;
    constexpr std::size_t kSpareBytes = std::size_t{2} * 1024 * 1024;
    const std::size_t size = buffer.capacity();
    if (size == 0 || spare_.size() == kSpareBuffers || spare_bytes_ + size > kSpareBytes) return;
    buffer.clear();
    spare_bytes_ += size;
    spare_.push_back(std::move(buffer));
  }

 private:
  const std::unique_ptr<std::uint8_t[]> read_buffer_ =
      std::make_unique_for_overwrite<std::uint8_t[]>(kReadSize);
  std::vector<Buffer> spare_;
  std::size_t spare_bytes_ = 0;  // bytes of memory in spare_
};

}  // namespace idproxy::net
