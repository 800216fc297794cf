#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "idproxy/base/random.hpp"

namespace idproxy::ids {

/// Random bytes in pieces of `kSize`, fetched for many ids at once: a request costs a few calls of
/// the source. Takes from the source just what is used, as long as no more than `expected` pieces
/// are asked for; from then on it fetches them one by one.
template <std::size_t kSize>
class RandomChunk {
 public:
  RandomChunk(RandomSource& random, std::size_t expected) : random_(random), expected_(expected) {}

  /// `kSize` bytes, valid until the next call.
  const std::uint8_t* next() {
    if (at_ == end_) refill();
    const std::uint8_t* piece = bytes_.data() + at_;
    at_ += kSize;
    return piece;
  }

 private:
  void refill() {
    const std::size_t pieces = std::clamp<std::size_t>(expected_, 1, kCapacity / kSize);
    expected_ -= std::min(expected_, pieces);
    at_ = 0;
    end_ = pieces * kSize;
    random_.fill(MutableBytes(bytes_).first(end_));
  }

  static constexpr std::size_t kCapacity = 4096;  // 256 UUIDs; one fetch for most requests

  RandomSource& random_;
  std::size_t expected_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::array<std::uint8_t, kCapacity> bytes_;  // not cleared: refill() writes what next() reads
};

}  // namespace idproxy::ids
