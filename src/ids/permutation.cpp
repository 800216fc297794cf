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

Permutation::Permutation(Space space, std::string tweak, std::vector<Epoch> epochs)
    : space_(std::move(space)), tweak_(std::move(tweak)), epochs_(std::move(epochs)) {
  for (const Epoch& each : epochs_) {
    ciphers_.push_back(std::make_unique<const Ff1>(
        each.key, tweak_, static_cast<std::uint32_t>(space_.alphabet.size()),
        static_cast<std::uint32_t>(space_.length)));
  }
  const Ff1::Halves& ends = ciphers_.front()->ends();
  const bool has_zeros = space_.zeros == LeadingZeros::allowed;
  const Uint128 high = has_zeros ? ends.high : ends.high - tenth_of(ends);
  const bool is_large = high > kLastNumber / ends.low;
  max_ = static_cast<std::int64_t>(is_large ? kLastNumber : high * ends.low - 1);
}

Permutation::~Permutation() = default;

void Permutation::write(std::int64_t number, std::uint8_t* text) const {
  const auto behind = std::ranges::upper_bound(epochs_, number, {}, &Epoch::from);
  const Ff1& cipher = *ciphers_[static_cast<std::size_t>(behind - epochs_.begin() - 1)];
  const Ff1::Halves& ends = cipher.ends();
  const auto whole = static_cast<Uint128>(number);
  Ff1::Halves hidden = cipher.encrypt({whole / ends.low, whole % ends.low});
  if (space_.zeros == LeadingZeros::none) {
    while (hidden.high >= ends.high - tenth_of(ends)) hidden = cipher.encrypt(hidden);
    hidden.high += tenth_of(ends);
  }
  const std::size_t first = space_.length / 2;
  encode(hidden.high, space_.alphabet, {text, first});
  encode(hidden.low, space_.alphabet, {text + first, space_.length - first});
}

std::vector<std::int64_t> Permutation::numbers(std::string_view text) const {
  constexpr unsigned kMostBits = 128;
  if (text.size() != space_.length) return {};
  const auto high = decode(text.substr(0, space_.length / 2), space_.alphabet, kMostBits);
  const auto low = decode(text.substr(space_.length / 2), space_.alphabet, kMostBits);
  if (!high || !low) return {};
  std::vector<std::int64_t> found;
  for (std::size_t i = 0; i < epochs_.size(); ++i) {
    const Ff1& cipher = *ciphers_[i];
    const Ff1::Halves& ends = cipher.ends();
    Ff1::Halves plain{*high, *low};
    if (space_.zeros == LeadingZeros::none) {
      if (plain.high < tenth_of(ends)) return {};
      plain.high -= tenth_of(ends);
    }
    do {
      plain = cipher.decrypt(plain);
    } while (space_.zeros == LeadingZeros::none && plain.high >= ends.high - tenth_of(ends));
    if (plain.high > (kLastNumber - plain.low) / ends.low) continue;
    const auto number = static_cast<std::int64_t>(plain.high * ends.low + plain.low);
    const bool is_last = i + 1 == epochs_.size();
    if (number > max_ || number < epochs_[i].from) continue;
    if (is_last || number < epochs_[i + 1].from) found.push_back(number);
  }
  return found;
}

Permutation::Seal Permutation::seal() const {
  Seal seal;
  for (const Epoch& each : epochs_) {
    if (!seal.keys.empty()) {
      seal.earlier.insert(seal.earlier.begin(), {seal.keys, each.from});
      seal.keys += " " + std::to_string(each.from) + ":";
    }
    seal.keys += fingerprint(each.key, tweak_);
  }
  seal.space = std::to_string(space_.alphabet.size()) + "^" + std::to_string(space_.length);
  if (space_.zeros == LeadingZeros::none) seal.space += " nz";
  if (!space_.is_named) seal.space += " " + space_.alphabet;
  return seal;
}

}  // namespace idproxy::ids
