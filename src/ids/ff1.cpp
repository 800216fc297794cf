#include "ids/ff1.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace idproxy::ids {
namespace {

constexpr std::uint8_t kRounds = 10;

const EVP_CIPHER* cipher_of(std::size_t key_size) {
  if (key_size == 16) return EVP_aes_128_ecb();
  return key_size == 24 ? EVP_aes_192_ecb() : EVP_aes_256_ecb();
}

std::size_t bytes_in(Uint128 number) {
  std::size_t bytes = 0;
  for (; number > 0; number >>= 8) ++bytes;
  return bytes;
}

/// The rest of a 64-bit division, if it suffices, takes a fraction of the time.
Uint128 rest_of(Uint128 number, Uint128 end) {
  if ((number >> 64) == 0 && (end >> 64) == 0) {
    return static_cast<std::uint64_t>(number) % static_cast<std::uint64_t>(end);
  }
  return number % end;
}

}  // namespace

void Ff1::FreeContext::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

/// Has the spare context as long as it lives.
class Ff1::Cipher {
 public:
  explicit Cipher(const Ff1& ff1)
      : ff1_(ff1), context_(ff1.spare_.exchange(nullptr, std::memory_order_acquire)) {
    if (context_) return;
    context_.reset(EVP_CIPHER_CTX_new());
    if (!context_ || EVP_EncryptInit_ex(context_.get(), cipher_of(ff1.key_size_), nullptr,
                                        ff1.key_.data(), nullptr) != 1) {
      throw std::runtime_error("OpenSSL has no AES");
    }
    EVP_CIPHER_CTX_set_padding(context_.get(), 0);
  }
  ~Cipher() { context_.reset(ff1_.spare_.exchange(context_.release(), std::memory_order_acq_rel)); }
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  void encrypt(Block& block) {
    constexpr int kBlock = 16;
    int size = 0;
    if (EVP_EncryptUpdate(context_.get(), block.data(), &size, block.data(), kBlock) != 1) {
      throw std::runtime_error("OpenSSL does not encrypt by AES");
    }
  }

  /// What a round adds to the other half, below `end`.
  Uint128 round(std::uint8_t number, Uint128 half, Uint128 end) {
    Block block = ff1_.last_;
    block[block.size() - 1 - ff1_.half_bytes_] = number;
    for (std::size_t i = 1; i <= ff1_.half_bytes_; ++i, half >>= 8) {
      block[block.size() - i] = static_cast<std::uint8_t>(half);
    }
    for (std::size_t i = 0; i < block.size(); ++i) block[i] ^= ff1_.before_last_[i];
    encrypt(block);
    const std::size_t own = std::min(ff1_.round_bytes_, block.size());
    Uint128 sum = rest_of(load_big_u128(block.data()) >> (8 * (block.size() - own)), end);
    if (own == ff1_.round_bytes_) return sum;
    block.back() ^= 1;
    encrypt(block);
    // `end` has at most 108 bits.
    for (std::size_t i = 0; own + i < ff1_.round_bytes_; ++i) sum = (sum << 8 | block[i]) % end;
    return sum;
  }

 private:
  const Ff1& ff1_;
  Context context_;
};

Ff1::Ff1(std::string_view key, std::string_view tweak, std::uint32_t radix, std::uint32_t length)
    : key_size_(key.size()) {
  std::copy(key.begin(), key.end(), key_.begin());
  const std::uint32_t first = length / 2;
  for (std::uint32_t i = 0; i < first; ++i) ends_.high *= radix;
  for (std::uint32_t i = first; i < length; ++i) ends_.low *= radix;
  half_bytes_ = bytes_in(ends_.low - 1);
  round_bytes_ = 4 * ((half_bytes_ + 3) / 4) + 4;
  const auto tweak_size = static_cast<std::uint32_t>(tweak.size());
  std::vector<std::uint8_t> blocks{1, 2, 1, 0, 0, 0, kRounds, static_cast<std::uint8_t>(first)};
  blocks.resize(16);
  boost::endian::store_big_u24(blocks.data() + 3, radix);
  boost::endian::store_big_u32(blocks.data() + 8, length);
  boost::endian::store_big_u32(blocks.data() + 12, tweak_size);
  blocks.insert(blocks.end(), tweak.begin(), tweak.end());
  while ((blocks.size() + 1 + half_bytes_) % last_.size() != 0) blocks.push_back(0);
  blocks.resize(blocks.size() + 1 + half_bytes_);
  Cipher cipher(*this);
  const auto last = blocks.end() - static_cast<std::ptrdiff_t>(last_.size());
  for (auto at = blocks.begin(); at != last; at += static_cast<std::ptrdiff_t>(last_.size())) {
    for (std::size_t i = 0; i < before_last_.size(); ++i) {
      before_last_[i] ^= at[static_cast<std::ptrdiff_t>(i)];
    }
    cipher.encrypt(before_last_);
  }
  std::copy(last, blocks.end(), last_.begin());
}

Ff1::~Ff1() {
  FreeContext()(spare_.load());
}

Ff1::Halves Ff1::encrypt(const Halves& plain) const {
  Cipher cipher(*this);
  Halves text = plain;
  Halves ends = ends_;
  for (std::uint8_t i = 0; i < kRounds; ++i) {
    const Uint128 sum = text.high + cipher.round(i, text.low, ends.high);
    text = {text.low, sum < ends.high ? sum : sum - ends.high};
    std::swap(ends.high, ends.low);
  }
  return text;
}

Ff1::Halves Ff1::decrypt(const Halves& secret) const {
  Cipher cipher(*this);
  Halves text = secret;
  Halves ends = ends_;
  for (std::uint8_t i = kRounds; i-- > 0;) {
    std::swap(ends.high, ends.low);
    const Uint128 sum = cipher.round(i, text.high, ends.high);
    text = {text.low < sum ? text.low + ends.high - sum : text.low - sum, text.high};
  }
  return text;
}

}  // namespace idproxy::ids
