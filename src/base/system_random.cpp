#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "idproxy/base/random.hpp"

namespace idproxy {
namespace {

std::atomic<std::uint64_t> forks{0};

void read_kernel_random(MutableBytes out) {
  while (!out.empty()) {
    const ssize_t n = ::getrandom(out.data(), out.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) std::abort();
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

/// One per thread: one system call per 1 KiB instead of one per id.
struct Pool {
  std::array<std::uint8_t, 1024> bytes;
  std::size_t used = sizeof bytes;
  std::uint64_t generation = 0;

  void fill(MutableBytes out) {
    if (generation != forks.load(std::memory_order_relaxed)) {
      generation = forks.load(std::memory_order_relaxed);
      used = bytes.size();
    }
    if (out.size() > bytes.size()) return read_kernel_random(out);
    if (out.size() > bytes.size() - used) {
      read_kernel_random(bytes);
      used = 0;
    }
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(used), out.size(), out.begin());
    // Clears the bytes handed out: a later memory dump must not reveal ids.
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(used), out.size(), std::uint8_t{0});
    used += out.size();
  }
};

class SystemRandom final : public RandomSource {
 public:
  SystemRandom() {
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  }
  void fill(MutableBytes out) override {
    thread_local Pool pool;
    pool.fill(out);
  }
  std::uint64_t generation() const override { return forks.load(std::memory_order_relaxed); }
};

}  // namespace

RandomSource& system_random() {
  static SystemRandom random;
  return random;
}

std::uint64_t uniform(RandomSource& random, std::uint64_t bound) {
  // 2^64 mod bound, without 128-bit arithmetic; limit 0 means 2^64.
  const std::uint64_t rest = (0 - bound) % bound;
  const std::uint64_t limit = 0 - rest;
  std::array<std::uint8_t, 8> bytes;
  std::uint64_t x = 0;
  do {
    random.fill(bytes);
    x = boost::endian::load_big_u64(bytes.data());
  } while (limit != 0 && x >= limit);
  return x % bound;
}

}  // namespace idproxy
