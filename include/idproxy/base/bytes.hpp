#pragma once

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

namespace idproxy {

/// Borrowed bytes, valid as long as the buffer that holds them.
using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

/// Little-endian loads and stores, for BSON and the wire protocol. The caller must check the
/// bounds.
inline std::int32_t load_i32(const std::uint8_t* p) {
  return boost::endian::load_little_s32(p);
}
inline std::uint32_t load_u32(const std::uint8_t* p) {
  return boost::endian::load_little_u32(p);
}
inline std::int64_t load_i64(const std::uint8_t* p) {
  return boost::endian::load_little_s64(p);
}
inline void store_i32(std::uint8_t* p, std::int32_t v) {
  boost::endian::store_little_s32(p, v);
}
inline void store_u32(std::uint8_t* p, std::uint32_t v) {
  boost::endian::store_little_u32(p, v);
}
inline void store_i64(std::uint8_t* p, std::int64_t v) {
  boost::endian::store_little_s64(p, v);
}

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// `text == literal`, as a comparison of a constant number of bytes, for which compilers need a few
/// instructions; the operator makes them call memcmp().
template <std::size_t kSize>
[[nodiscard]] bool equals(std::string_view text, const char (&literal)[kSize]) {
  if (text.size() != kSize - 1) return false;
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): of the same size
  return std::memcmp(text.data(), literal, kSize - 1) == 0;
}

/// A growing byte buffer that does not clear new bytes, because messages are large and written
/// completely. Growing it, drop_front() and moving from it invalidate all views of it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }

  void swap(Buffer& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint8_t* data() { return bytes_.get(); }
  [[nodiscard]] const std::uint8_t* data() const { return bytes_.get(); }
  [[nodiscard]] Bytes view() const { return {bytes_.get(), size_}; }

  void clear() { size_ = 0; }

  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    // Where it can, realloc() extends the block, or moves its pages, and copies nothing.
    void* const grown = std::realloc(bytes_.get(), capacity);
    if (grown == nullptr) throw std::bad_alloc();
    static_cast<void>(bytes_.release());  // realloc() has freed it
    bytes_.reset(static_cast<std::uint8_t*>(grown));
    capacity_ = capacity;
  }

  /// Adds `n` uninitialized bytes and returns their start.
  std::uint8_t* extend(std::size_t n) {
    if (n > capacity_ - size_) reserve(std::max(capacity_ * 2, size_ + n));
    std::uint8_t* at = bytes_.get() + size_;
    size_ += n;
    return at;
  }

  void append(Bytes bytes) {
    if (!bytes.empty()) std::memcpy(extend(bytes.size()), bytes.data(), bytes.size());
  }

  void truncate(std::size_t size) { size_ = std::min(size, size_); }

  void drop_front(std::size_t n) {
    if (n == 0) return;
    size_ -= n;
    std::memmove(bytes_.get(), bytes_.get() + n, size_);
  }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const { std::free(bytes); }
  };

  std::unique_ptr<std::uint8_t[], Free> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace idproxy
