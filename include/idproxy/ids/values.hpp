#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/error.hpp"

namespace idproxy::ids {

/// The text in the bytes of a BSON string.
[[nodiscard]] inline std::string_view text_in_string(Bytes value) {
  return as_text(value.subspan(4, value.size() - 5));
}
/// Of a string, or an integer in decimal.
[[nodiscard]] inline std::string plain_text(bson::Type type, Bytes value) {
  if (type == bson::Type::string) return std::string(text_in_string(value));
  return std::to_string(type == bson::Type::int32 ? load_i32(value.data())
                                                  : load_i64(value.data()));
}

/// Generated BSON values of one type. Each value is stored as the bytes that follow the key in an
/// element. Reused from request to request: clear() keeps the memory.
class Values {
 public:
  [[nodiscard]] bson::Type type() const { return type_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Valid until the next add() or clear().
  [[nodiscard]] Bytes operator[](std::size_t i) const {
    if (ends_.empty()) return bytes_.view().subspan(i * each_, each_);
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return bytes_.view().subspan(begin, ends_[i] - begin);
  }

  /// Adds a value of `size` bytes, which the caller must write at once; or `n` of them, one behind
  /// the other.
  std::uint8_t* add(bson::Type type, std::size_t size, std::size_t n = 1) {
    type_ = type;
    if (size_ == 0) each_ = size;
    if (size != each_ && ends_.empty()) note_ends();
    std::uint8_t* at = bytes_.extend(n * size);
    size_ += n;
    if (!ends_.empty()) note_more_ends(n, size);
    return at;
  }
  /// Adds a BSON string of `size` bytes: int32 length including the NUL, text, NUL. Returns where
  /// the caller must write the text at once.
  std::uint8_t* add_string(std::size_t size) {
    std::uint8_t* at = add(bson::Type::string, 4 + size + 1);
    store_i32(at, static_cast<std::int32_t>(size + 1));
    at[4 + size] = 0;
    return at + 4;
  }
  void add_string(std::string_view text) {
    std::copy_n(as_bytes(text).begin(), text.size(), add_string(text.size()));
  }

  /// Bytes of all values together.
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }
  /// Allocated memory, in bytes.
  [[nodiscard]] std::size_t capacity() const {
    return bytes_.capacity() + ends_.capacity() * sizeof(std::size_t);
  }

  void clear() {
    size_ = 0;
    bytes_.clear();
    ends_.clear();
  }

 private:
  /// For values of different sizes.
  void note_ends() { note_more_ends(size_, each_); }
  void note_more_ends(std::size_t n, std::size_t size) {
    std::size_t end = ends_.empty() ? 0 : ends_.back();
    for (; n > 0; --n) ends_.push_back(end += size);
  }

  bson::Type type_ = bson::Type::null;
  Buffer bytes_;
  std::size_t size_ = 0;
  std::size_t each_ = 0;  // bytes of the first value, and of all others as long as ends_ is empty
  std::vector<std::size_t> ends_;
};

/// The result of a draw: all values, a need to ask the store, or an error.
class [[nodiscard]] Draw {
 public:
  /// Success: all values were drawn.
  Draw() = default;
  /// There are no values.
  Draw(Error error) : result_(std::move(error)) {}
  /// Nothing was drawn: StoreSource::ask() must get the values from the store.
  static Draw need() { return Draw(Result<What>(What::need)); }

  /// True if all values were drawn.
  explicit operator bool() const { return result_ && *result_ == What::values; }
  [[nodiscard]] bool needs_store() const { return result_ && *result_ == What::need; }
  /// Only valid if the draw failed: it is false and needs_store() is false.
  [[nodiscard]] Error error() const { return result_.error(); }

 private:
  enum class What { values, need };
  explicit Draw(Result<What> result) : result_(std::move(result)) {}

  Result<What> result_ = What::values;
};

}  // namespace idproxy::ids
