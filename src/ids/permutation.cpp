#include "idproxy/ids/permutation.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/digest.hpp"
#include "ids/encoding.hpp"
#include "ids/ff1.hpp"

namespace idproxy::ids {
namespace {

constexpr Uint128 kLastNumber = Uint128{std::numeric_limits<std::int64_t>::max()};

/// Who has a document cannot tell the key from it.
std::string fingerprint(const std::string& key, const std::string& tweak) {
  using std::string_literals::operator""s;
  return sha256("idproxy-fpe\0"s + key + tweak).substr(0, 16);
}

/// Of the first digits: those of texts that do not begin with 0 are one tenth further on.
Uint128 tenth_of(const Ff1::Halves& ends) {
  return ends.high / 10;
}

}  // namespace

Permutation::Permutation(Space space, std::string tweak, std::string key)
    : space_(std::move(space)),
      tweak_(std::move(tweak)),
      key_(std::move(key)),
      cipher_(std::make_unique<const Ff1>(key_, tweak_,
                                          static_cast<std::uint32_t>(space_.alphabet.size()),
                                          static_cast<std::uint32_t>(space_.length))) {
  const Ff1::Halves& ends = cipher_->ends();
  const bool has_zeros = space_.zeros == LeadingZeros::allowed;
  const Uint128 high = has_zeros ? ends.high : ends.high - tenth_of(ends);
  const bool is_large = high > kLastNumber / ends.low;
  max_ = static_cast<std::int64_t>(is_large ? kLastNumber : high * ends.low - 1);
}

Permutation::~Permutation() = default;

void Permutation::write(std::int64_t number, std::uint8_t* text) const {
  if (number < 0 || number > max_) {
    std::fill_n(text, space_.length, static_cast<std::uint8_t>(' '));
    return;
  }
  const Ff1::Halves& ends = cipher_->ends();
  const auto whole = static_cast<Uint128>(number);
  Ff1::Halves hidden = cipher_->encrypt({whole / ends.low, whole % ends.low});
  if (space_.zeros == LeadingZeros::none) {
    while (hidden.high >= ends.high - tenth_of(ends)) hidden = cipher_->encrypt(hidden);
    hidden.high += tenth_of(ends);
  }
  const std::size_t first = space_.length / 2;
  encode(hidden.high, space_.alphabet, {text, first});
  encode(hidden.low, space_.alphabet, {text + first, space_.length - first});
}

std::optional<std::int64_t> Permutation::read(std::string_view text) const {
  constexpr unsigned kMostBits = 128;
  if (text.size() != space_.length) return std::nullopt;
  const auto high = decode(text.substr(0, space_.length / 2), space_.alphabet, kMostBits);
  const auto low = decode(text.substr(space_.length / 2), space_.alphabet, kMostBits);
  if (!high || !low) return std::nullopt;
  const Ff1::Halves& ends = cipher_->ends();
  Ff1::Halves plain{*high, *low};
  if (space_.zeros == LeadingZeros::none) {
    if (plain.high < tenth_of(ends)) return std::nullopt;
    plain.high -= tenth_of(ends);
  }
  do {
    plain = cipher_->decrypt(plain);
  } while (space_.zeros == LeadingZeros::none && plain.high >= ends.high - tenth_of(ends));
  if (plain.low > kLastNumber || plain.high > (kLastNumber - plain.low) / ends.low) {
    return std::nullopt;
  }
  const auto number = static_cast<std::int64_t>(plain.high * ends.low + plain.low);
  return number > max_ ? std::nullopt : std::optional(number);
}

Permutation::Seal Permutation::seal() const {
  const bool has_digits = space_.alphabet == alphabet_named("digits");
  return {fingerprint(key_, tweak_), std::to_string(space_.alphabet.size()) + "^" +
                                         std::to_string(space_.length) +
                                         (space_.zeros == LeadingZeros::none ? " nz" : "") +
                                         (has_digits ? "" : " " + space_.alphabet)};
}

}  // namespace idproxy::ids
