#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "idproxy/base/random.hpp"

namespace idproxy::ids {

/// Random bytes in pieces of `kSize`. Fetches the bytes of many ids at once, so that a request
/// makes only a few calls to the source. Up to `expected` pieces it takes exactly what is used from
/// the source; after that it fetches piece by piece.
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

  static constexpr std::size_t kCapacity = 4096;  // 256 UUIDs: one fetch for most requests

  RandomSource& random_;
  std::size_t expected_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::array<std::uint8_t, kCapacity> bytes_;  // not cleared: refill() writes what next() reads
};

}  // namespace idproxy::ids
