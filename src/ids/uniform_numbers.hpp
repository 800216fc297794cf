#pragma once

#include <boost/endian/conversion.hpp>
#include <cstddef>
#include <cstdint>

#include "ids/random_chunk.hpp"

namespace idproxy::ids {

__extension__ using Uint128 = unsigned __int128;

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
