#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "idproxy/base/owned.hpp"
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

/// Makes `out`, all zeros, random: a key of the kernel's, and ChaCha20's stream with it. The kernel
/// takes six times as long for as many bytes. RAND_bytes() would go on with a state of its own for
/// minutes, and with the same one in both copies of a virtual machine that is copied while it runs.
/// Returns false if OpenSSL has no such cipher.
class Stream {
 public:
  [[nodiscard]] bool fill(MutableBytes out) {
    std::array<std::uint8_t, 32> key;
    read_kernel_random(key);
    const std::array<std::uint8_t, 16> nonce{};  // no key is used twice
    int size = 0;
    const bool filled =
        context_ != nullptr &&
        EVP_EncryptInit_ex2(context_.get(), nullptr, key.data(), nonce.data(), nullptr) == 1 &&
        EVP_EncryptUpdate(context_.get(), out.data(), &size, out.data(),
                          static_cast<int>(out.size())) == 1;
    OPENSSL_cleanse(key.data(), key.size());
    return filled && static_cast<std::size_t>(size) == out.size();
  }

 private:
  using Context = Owned<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

  static Context make_context() {
    const Owned<EVP_CIPHER, EVP_CIPHER_free> cipher(EVP_CIPHER_fetch(nullptr, "ChaCha20", nullptr));
    Context context(EVP_CIPHER_CTX_new());
    if (!cipher || !context) return {};
    const int set = EVP_EncryptInit_ex2(context.get(), cipher.get(), nullptr, nullptr, nullptr);
    return set == 1 ? std::move(context) : Context();
  }

  Context context_ = make_context();
};

/// One per thread: one system call for 2 KiB instead of one per id. Not more, because a virtual
/// machine that is copied while it runs has the same bytes in each copy.
struct Pool {
  std::array<std::uint8_t, 2048> bytes;
  std::size_t used = sizeof bytes;
  std::uint64_t generation = 0;
  Stream stream;

  void fill(MutableBytes out) {
    if (generation != forks.load(std::memory_order_relaxed)) {
      generation = forks.load(std::memory_order_relaxed);
      used = bytes.size();
    }
    while (!out.empty()) {
      if (used == bytes.size()) refill();
      const std::size_t n = std::min(out.size(), bytes.size() - used);
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(used);
      std::copy_n(from, n, out.begin());
      // Clears the bytes handed out: a later memory dump must not reveal ids.
      std::fill_n(from, n, std::uint8_t{0});
      used += n;
      out = out.subspan(n);
    }
  }

 private:
  void refill() {
    bytes.fill(0);
    if (!stream.fill(bytes)) read_kernel_random(bytes);
    used = 0;
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
