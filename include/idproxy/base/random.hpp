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
  /// A number that changes in a child of fork(): state that was seeded under another generation is
  /// shared with the parent and must be seeded again.
  [[nodiscard]] virtual std::uint64_t generation() const { return 0; }
};

/// The bytes of getrandom(2), buffered per thread; a child of fork() drops the buffer. Aborts the
/// process if the kernel has no random bytes, because there is no weaker source to fall back to.
RandomSource& system_random();

/// A uniform number in [0, bound), bound > 0, by rejection: draws 64 big-endian bits x until they
/// are below floor(2^64 / bound) * bound; the result is x mod bound.
std::uint64_t uniform(RandomSource& random, std::uint64_t bound);

}  // namespace idproxy
