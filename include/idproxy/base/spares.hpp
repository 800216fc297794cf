#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
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
    spares_.emplace_back(std::move(spare), capacity);
    bytes_ += capacity;
  }
  /// There must be one.
  [[nodiscard]] T take() {
    T spare = std::move(spares_.back().first);
    bytes_ -= spares_.back().second;
    spares_.pop_back();
    unused_ = std::min(unused_, spares_.size());
    return spare;
  }
  /// Frees those that nobody has needed since the last call.
  void free_unused() {
    const auto end = spares_.begin() + static_cast<std::ptrdiff_t>(unused_);
    std::for_each(spares_.begin(), end, [this](const auto& spare) { bytes_ -= spare.second; });
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

  std::vector<std::pair<T, std::size_t>> spares_;  // with their capacities
  std::size_t bytes_ = 0;
  std::size_t unused_ = 0;  // so many at the front have lain there since the last free_unused()
};

/// Memory for objects of one size, which come and go all the time. Keeps some of what is given
/// back, and gives out first what came back last. Not thread-safe.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool() {
    while (free_ != nullptr) ::operator delete(std::exchange(free_, free_->next));
  }

  /// `size`: always the same; aligned as by malloc().
  [[nodiscard]] void* take(std::size_t size) {
    if (free_ == nullptr) return ::operator new(size);
    --count_;
    return std::exchange(free_, free_->next);
  }
  void give_back(void* block) {
    if (count_ == kMost) return ::operator delete(block);
    ++count_;
    free_ = new (block) Free{free_};
  }

 private:
  static constexpr std::size_t kMost = 2048;

  struct Free {
    Free* next;
  };
  Free* free_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace idproxy
