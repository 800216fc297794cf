#include "net/buffer_pool.hpp"

#include <bit>
#include <utility>

namespace idproxy::net {
namespace {

// So little is not worth a timer.
constexpr std::size_t kAlwaysKept = std::size_t{64} * 1024;

}  // namespace

Buffer BufferPool::take(std::size_t size) {
  const std::size_t capacity = std::bit_ceil(std::max(size, kSmallest));
  const auto place = static_cast<std::size_t>(std::countr_zero(capacity / kSmallest));
  if (place < spares_.size() && !spares_[place].empty()) {
    Buffer buffer = spares_[place].take();
    spare_bytes_ -= buffer.capacity();
    return buffer;
  }
  Buffer buffer;
  buffer.reserve(capacity);
  return buffer;
}

void BufferPool::give_back(Buffer buffer) {
  const std::size_t capacity = buffer.capacity();
  if (capacity < kSmallest || spare_bytes_ + capacity > most_) return;
  buffer.clear();
  spare_bytes_ += capacity;
  const auto place = static_cast<std::size_t>(std::bit_width(capacity / kSmallest)) - 1;
  spares_[std::min(place, spares_.size() - 1)].add(std::move(buffer));
  if (spare_bytes_ > kAlwaysKept && !timer_.runs()) free_later();
}

void BufferPool::free_later() {
  timer_.start(patience_, [this] { free_unused(); });
}

void BufferPool::free_unused() {
  spare_bytes_ = 0;
  for (Spares<Buffer>& spares : spares_) {
    spares.free_unused();
    spare_bytes_ += spares.bytes();
  }
  freed_();
  if (spare_bytes_ > kAlwaysKept) free_later();
}

}  // namespace idproxy::net
