#pragma once

#include <cstddef>
#include <new>
#include <utility>

namespace idproxy::net {

/// Memory for objects of one type, which come and go all the time. Keeps what is given back. Not
/// thread-safe.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool() {
    while (free_ != nullptr) ::operator delete(std::exchange(free_, free_->next));
  }

  /// `size`: that of the type, aligned as by malloc().
  [[nodiscard]] void* take(std::size_t size) {
    if (free_ == nullptr) return ::operator new(size);
    return std::exchange(free_, free_->next);
  }
  void give_back(void* block) { free_ = new (block) Free{free_}; }

 private:
  struct Free {
    Free* next;
  };
  Free* free_ = nullptr;
};

}  // namespace idproxy::net
