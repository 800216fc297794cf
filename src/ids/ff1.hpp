#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ids/encoding.hpp"

struct evp_cipher_ctx_st;

namespace idproxy::ids {

/// Encrypts texts of one length to texts of that length (NIST SP 800-38G, FF1), with AES by
/// OpenSSL. Thread-safe.
class Ff1 {
 public:
  static constexpr std::uint32_t kMostRadix = 64;
  static constexpr std::uint32_t kMostLength = 36;

  /// A text as two numbers: its first length / 2 digits, and the others.
  struct Halves {
    Uint128 high;
    Uint128 low;
  };

  /// `key`: 16, 24 or 32 bytes. `radix`: 2 to kMostRadix. `length`: in digits, 2 to kMostLength.
  Ff1(std::string_view key, std::string_view tweak, std::uint32_t radix, std::uint32_t length);
  ~Ff1();
  Ff1(const Ff1&) = delete;
  Ff1& operator=(const Ff1&) = delete;

  [[nodiscard]] Halves encrypt(const Halves& plain) const;
  [[nodiscard]] Halves decrypt(const Halves& secret) const;
  /// How many numbers the first and the other digits can be.
  [[nodiscard]] const Halves& ends() const { return ends_; }

 private:
  struct FreeContext {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Context = std::unique_ptr<evp_cipher_ctx_st, FreeContext>;
  using Block = std::array<std::uint8_t, 16>;
  class Cipher;

  std::array<std::uint8_t, 32> key_{};
  const std::size_t key_size_;
  Halves ends_{1, 1};
  std::size_t half_bytes_ = 0;   // b of the specification
  std::size_t round_bytes_ = 0;  // d
  Block before_last_{};          // the MAC of all blocks but the last, which are always the same
  Block last_{};                 // that one, without the round and the half
  /// One that nobody uses, to save its making.
  mutable std::atomic<evp_cipher_ctx_st*> spare_{nullptr};
};

}  // namespace idproxy::ids
