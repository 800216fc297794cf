#pragma once

#include <boost/endian/conversion.hpp>
#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/parameters.hpp"
#include "idproxy/ids/values.hpp"

/// Numbers as text: an alphabet has the digits, the one for 0 first.
namespace idproxy::ids {

__extension__ using Uint128 = unsigned __int128;

inline constexpr std::string_view kHex = "0123456789abcdef";
/// Crockford's, in lower case, as TypeIDs have it.
inline constexpr std::string_view kBase32 = "0123456789abcdefghjkmnpqrstvwxyz";
inline constexpr std::string_view kBase32Upper = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The 16 bytes of a number, the highest first.
inline void store_big_u128(std::uint8_t* at, Uint128 number) {
  boost::endian::store_big_u64(at, static_cast<std::uint64_t>(number >> 64));
  boost::endian::store_big_u64(at + 8, static_cast<std::uint64_t>(number));
}
[[nodiscard]] inline Uint128 load_big_u128(const std::uint8_t* at) {
  return Uint128{boost::endian::load_big_u64(at)} << 64 | boost::endian::load_big_u64(at + 8);
}

/// The characters of an alphabet that has a name: the encodings', digits, and url64, nanoid's,
/// which does not ascend. Empty: there is no such name.
[[nodiscard]] std::string_view alphabet_named(std::string_view name);

/// Writes a number, the most significant digit first, so that it fills `text`.
void encode(Uint128 number, std::string_view alphabet, MutableBytes text);

/// Nothing if a character is no digit, or if the number has more than `bits` bits, at most 128.
[[nodiscard]] std::optional<Uint128> decode(std::string_view text, std::string_view alphabet,
                                            unsigned bits);

/// How a strategy that makes bits writes them as text.
struct TextForm {
  TextForm() = default;
  /// `bits`: at most 128.
  TextForm(std::string in_front, std::string_view digit_characters, unsigned number_bits);

  std::string prefix{};
  std::string_view alphabet{};  ///< static; empty: the strategy has a text of its own
  unsigned bits = 0;
  std::size_t digits = 0;  ///< of the largest number with so many bits

  /// Adds a string of the prefix and `size` characters. Returns where to write these at once.
  std::uint8_t* add(std::size_t size, Values& out) const;
  /// Appends a string of the prefix and `digits` digits.
  void append(Uint128 number, Values& out) const;
  /// The number in a text that append() wrote, or why it could not have written it.
  [[nodiscard]] boost::system::result<Uint128, std::string> read(std::string_view text) const;
  /// Why a text does not have the prefix and `digits` digits; empty: it has.
  [[nodiscard]] std::string fault(std::string_view text) const;
};

/// Reads `alphabet`: the characters that the name stands for, or the text itself, of up to `most`
/// characters; empty after a fault.
[[nodiscard]] std::string read_alphabet(Parameters& rule, std::string_view fallback,
                                        std::size_t most);
/// Reads `encoding` (none, hex, base32, base32upper, base36, base58, base62): its digits, which
/// are static; empty: none.
[[nodiscard]] std::string_view read_encoding(Parameters& rule);
/// Reads `encoding` and `prefix`. `bits`: of the strategy's values.
[[nodiscard]] TextForm read_text_form(Parameters& rule, unsigned bits);
/// Reads them and `output`: the strategy's own BSON type, or string. True: the value is a text.
[[nodiscard]] bool read_text_output(Parameters& rule, std::string_view own_type, unsigned bits,
                                    TextForm& form);
/// Reads `prefix` alone.
[[nodiscard]] std::string read_prefix(Parameters& rule);

}  // namespace idproxy::ids
