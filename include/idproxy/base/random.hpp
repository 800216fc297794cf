#pragma once

#include <cstdint>

#include "idproxy/base/bytes.hpp"

namespace idproxy {

/// A source of random bytes. Thread-safe.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  /// Fills `out` with independent, uniformly distributed bytes.
  virtual void fill(MutableBytes out) = 0;
  /// Changes in a child of fork(): what was seeded under another generation is shared with the
  /// parent and must be seeded anew.
  [[nodiscard]] virtual std::uint64_t generation() const { return 0; }
};

/// The bytes of getrandom(2), buffered per thread; the buffer is dropped in a child of fork().
/// Aborts when the kernel has no random bytes: there is no weaker source to fall back to.
RandomSource& system_random();

/// A uniform number in [0, bound), bound > 0, by rejection: 64 big-endian bits x are drawn until
/// x < floor(2^64 / bound) * bound; the result is x mod bound.
std::uint64_t uniform(RandomSource& random, std::uint64_t bound);

}  // namespace idproxy
