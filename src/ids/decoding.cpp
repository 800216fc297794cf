#include "ids/decoding.hpp"

#include <algorithm>
#include <array>

#include "idproxy/base/time_zone.hpp"
#include "ids/hex.hpp"

namespace idproxy::ids {
namespace {

constexpr std::array<std::size_t, 4> kHyphens{8, 13, 18, 23};

}  // namespace

std::string uuid_text(Uint128 uuid) {
  std::array<std::uint8_t, 16> bytes;
  store_big_u128(bytes.data(), uuid);
  std::array<std::uint8_t, kUuidTextSize> text;
  write_uuid_text(bytes, text.data());
  return std::string(as_text(text));
}

boost::system::result<Uint128, std::string> uuid_bits(std::string_view text) {
  const auto is_hyphen = [&](std::size_t at) { return text[at] == '-'; };
  if (text.size() == kUuidTextSize && std::ranges::all_of(kHyphens, is_hyphen)) {
    std::string digits(text);
    std::erase(digits, '-');
    const auto bits = decode(digits, kHex, 128);
    if (bits && digits.size() == kUuidTextSize - kHyphens.size()) return *bits;
  }
  return "is no UUID of 36 lower-case characters";
}

std::string time_text(std::chrono::milliseconds time) {
  return utc_text("%E4Y-%m-%dT%H:%M:%E3SZ", time);
}

}  // namespace idproxy::ids
