#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace idproxy {

/// Objects that are kept for the memory they own, last in, first out, so that the one that is used
/// next is likely in the processor's caches. T::capacity() is its memory in bytes, or that of what
/// a T points to.
template <class T>
class Spares {
 public:
  [[nodiscard]] bool empty() const { return spares_.empty(); }
  [[nodiscard]] std::size_t size() const { return spares_.size(); }
  /// Of memory in all of them.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  void add(T spare) {
    const std::size_t capacity = capacity_of(spare);
    spares_.push_back(std::move(spare));
    bytes_ += capacity;
  }
  /// There must be one.
  [[nodiscard]] T take() {
    T spare = std::move(spares_.back());
    spares_.pop_back();
    bytes_ -= capacity_of(spare);
    unused_ = std::min(unused_, spares_.size());
    return spare;
  }
  /// Frees those that nobody has needed since the last call.
  void free_unused() {
    const auto end = spares_.begin() + static_cast<std::ptrdiff_t>(unused_);
    std::for_each(spares_.begin(), end, [this](const T& spare) { bytes_ -= capacity_of(spare); });
    spares_.erase(spares_.begin(), end);
    unused_ = spares_.size();
  }

 private:
  [[nodiscard]] static std::size_t capacity_of(const T& spare) {
    if constexpr (requires { spare.capacity(); }) {
      return spare.capacity();
    } else {
      return spare->capacity();
    }
  }

  std::vector<T> spares_;
  std::size_t bytes_ = 0;
  std::size_t unused_ = 0;  // so many at the front have lain there since the last free_unused()
};

}  // namespace idproxy
