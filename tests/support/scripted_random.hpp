#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "idproxy/base/random.hpp"
#include "support/hex.hpp"

namespace idproxy::test {

/// Hands out the bytes of a script, in order. Throws if a call asks for more than is left, which
/// fails the test. Not thread-safe.
class ScriptedRandom final : public RandomSource {
 public:
  explicit ScriptedRandom(std::string_view hex = {}) : bytes_(from_hex(hex)) {}

  void add(std::string_view hex) {
    const auto more = from_hex(hex);
    bytes_.insert(bytes_.end(), more.begin(), more.end());
  }
  void fill(MutableBytes out) override {
    if (out.size() > left()) throw std::out_of_range("the script of random bytes is at its end");
    std::copy_n(bytes_.data() + used_, out.size(), out.begin());
    used_ += out.size();
  }
  [[nodiscard]] std::uint64_t generation() const override { return generation_; }

  /// Makes the source look as in a child of fork().
  void fork() { ++generation_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - used_; }

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t used_ = 0;
  std::uint64_t generation_ = 0;
};

/// Pseudorandom bytes that are the same in every run: SplitMix64 (Steele, Lea, Flood 2014).
/// Thread-safe.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(std::uint64_t seed = 1) : state_(seed) {}

  void fill(MutableBytes out) override {
    const std::lock_guard lock(mutex_);
    while (!out.empty()) {
      std::uint64_t number = next();
      for (int i = 0; i < 8 && !out.empty(); ++i, number >>= 8) {
        out.front() = static_cast<std::uint8_t>(number);
        out = out.subspan(1);
      }
    }
  }
  [[nodiscard]] std::uint64_t generation() const override { return generation_; }
  void fork() { ++generation_; }

 private:
  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

  std::mutex mutex_;
  std::uint64_t state_;
  std::atomic<std::uint64_t> generation_ = 0;
};

}  // namespace idproxy::test
