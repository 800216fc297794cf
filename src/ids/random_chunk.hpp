#pragma once

#include <algorithm>
#include <array>
#include <boost/endian/conversion.hpp>
#include <cstddef>
#include <cstdint>

#include "idproxy/base/random.hpp"
#include "ids/encoding.hpp"

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

/// floor(2^b / bound) * bound for a Number of b bits, bound > 0. The result 0 means 2^b, which is
/// the limit if `bound` is a power of two.
template <class Number>
constexpr Number rejection_limit(Number bound) {
  return static_cast<Number>(Number{0} - (Number{0} - bound) % bound);
}

inline std::uint64_t load_big(const std::uint8_t* at, std::uint64_t /*type*/) {
  return boost::endian::load_big_u64(at);
}
inline Uint128 load_big(const std::uint8_t* at, Uint128 /*type*/) {
  return Uint128{boost::endian::load_big_u64(at)} << 64 | boost::endian::load_big_u64(at + 8);
}

/// Uniform numbers in [0, bound), by rejection: draws x, big-endian and as wide as Number, until it
/// is below the limit; the result is x mod bound. Fetches the random bytes of `expected` numbers at
/// once.
template <class Number>
class UniformNumbers {
 public:
  UniformNumbers(RandomSource& random, Number bound, std::size_t expected)
      : chunk_(random, expected), bound_(bound), limit_(rejection_limit(bound)) {}

  Number next() {
    Number x = load_big(chunk_.next(), Number{});
    while (limit_ != 0 && x >= limit_) x = load_big(chunk_.next(), Number{});
    return x % bound_;
  }

 private:
  RandomChunk<sizeof(Number)> chunk_;
  Number bound_;
  Number limit_;
};

}  // namespace idproxy::ids
