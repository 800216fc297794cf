#include "ids/encoding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "idproxy/base/printable.hpp"

namespace idproxy::ids {
namespace {

constexpr std::size_t kLongestPrefix = 64;

struct Alphabet {
  std::string_view name;
  std::string_view characters;
};
/// Those of `encoding` come first. They ascend in ASCII: texts of one length sort as their numbers.
constexpr std::array<Alphabet, 9> kAlphabets{
    {{"none", ""},
     {"hex", kHex},
     {"base32", kBase32},
     {"base32upper", kBase32Upper},
     {"base36", "0123456789abcdefghijklmnopqrstuvwxyz"},
     {"base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"},  // Bitcoin's
     {"base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"},
     {"digits", "0123456789"},
     {"url64", "useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict"}}};

Uint128 largest(unsigned bits) {
  return ~Uint128{0} >> (128 - bits);
}

/// What is wrong with an alphabet; empty: nothing.
std::string alphabet_fault(std::string_view alphabet, std::size_t most) {
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    if (alphabet[i] < ' ' || alphabet[i] > '~') {
      // All bytes of a character in UTF-8.
      const auto is_within = [&](std::size_t at) { return (alphabet[at] & 0xC0) == 0x80; };
      std::size_t end = i + 1;
      while (end < alphabet.size() && is_within(end)) ++end;
      return "must have printable characters of ASCII only, has " +
             in_quotes(alphabet.substr(i, end - i));
    }
    if (alphabet.find(alphabet[i], i + 1) != std::string_view::npos) {
      return "has " + in_quotes(alphabet.substr(i, 1)) + " twice";
    }
  }
  if (alphabet.size() > 1 && alphabet.size() <= most) return {};
  return "must be url64, digits, hex, base32, base32upper, base36, base58, base62, or 2 to " +
         std::to_string(most) + " different characters";
}

}  // namespace

std::string_view alphabet_named(std::string_view name) {
  const auto* named = std::ranges::find(kAlphabets, name, &Alphabet::name);
  return named == kAlphabets.end() ? std::string_view() : named->characters;
}

/// Works on pieces of 64 bits: to shift or divide 128 bits takes several times as long.
void encode(Uint128 number, std::string_view alphabet, MutableBytes text) {
  const std::uint64_t base = alphabet.size();
  std::size_t at = text.size();
  if (std::has_single_bit(base)) {
    constexpr int kPieceBits = 60;  // whole digits of 1 to 6 bits
    const int width = std::countr_zero(base);
    for (; at > 0; number >>= kPieceBits) {
      auto piece = static_cast<std::uint64_t>(number);
      for (int bits = 0; bits < kPieceBits && at > 0; bits += width, piece >>= width) {
        text[--at] = static_cast<std::uint8_t>(alphabet[piece & (base - 1)]);
      }
    }
    return;
  }
  constexpr std::size_t kPiece = 8;  // digits; 95^8 has 53 bits
  std::uint64_t piece_end = 1;
  for (std::size_t i = 0; i < kPiece; ++i) piece_end *= base;
  for (; at > 0; number /= piece_end) {
    auto piece = static_cast<std::uint64_t>(number % piece_end);
    for (std::size_t i = 0; i < kPiece && at > 0; ++i, piece /= base) {
      text[--at] = static_cast<std::uint8_t>(alphabet[piece % base]);
    }
  }
}

std::optional<Uint128> decode(std::string_view text, std::string_view alphabet, unsigned bits) {
  const Uint128 most = largest(bits);
  const Uint128 most_before = most / alphabet.size();
  Uint128 number = 0;
  for (const char c : text) {
    const std::size_t digit = alphabet.find(c);
    if (digit == std::string_view::npos || number > most_before) return std::nullopt;
    number *= alphabet.size();
    if (number > most - digit) return std::nullopt;
    number += digit;
  }
  return number;
}

TextForm::TextForm(std::string in_front, std::string_view digit_characters, unsigned number_bits)
    : prefix(std::move(in_front)), alphabet(digit_characters), bits(number_bits) {
  if (alphabet.empty()) return;
  for (Uint128 left = largest(bits); left > 0; left /= alphabet.size()) ++digits;
}

std::uint8_t* TextForm::add(std::size_t size, Values& out) const {
  return std::copy(prefix.begin(), prefix.end(), out.add_string(prefix.size() + size));
}

void TextForm::append(Uint128 number, Values& out) const {
  encode(number, alphabet, {add(digits, out), digits});
}

boost::system::result<Uint128, std::string> TextForm::read(std::string_view text) const {
  if (std::string why = fault(text); !why.empty()) return why;
  if (const auto number = decode(text.substr(prefix.size()), alphabet, bits)) return *number;
  return "has more than " + std::to_string(bits) + " bits";
}

std::string TextForm::fault(std::string_view text) const {
  if (!text.starts_with(prefix)) return "does not begin with " + in_quotes(prefix);
  text.remove_prefix(prefix.size());
  if (text.size() != digits) {
    return "has " + std::to_string(text.size()) + " characters" +
           (prefix.empty() ? "" : " behind the prefix") + ", and the rule's values have " +
           std::to_string(digits);
  }
  const std::size_t other = text.find_first_not_of(alphabet);
  if (other == std::string_view::npos) return {};
  return "has " + in_quotes(text.substr(other, 1)) + ", which is none of " + std::string(alphabet);
}

std::string_view read_encoding(Parameters& rule) {
  const std::size_t encoding = rule.choice(
      "encoding", {"none", "hex", "base32", "base32upper", "base36", "base58", "base62"});
  return kAlphabets.at(encoding).characters;
}

std::string read_alphabet(Parameters& rule, std::string_view fallback, std::size_t most) {
  std::string text = rule.text("alphabet", fallback);
  if (const std::string_view known = alphabet_named(text); !known.empty()) {
    return std::string(known);
  }
  if (const std::string fault = alphabet_fault(text, most); !fault.empty()) {
    rule.error("alphabet", fault);
    return {};
  }
  return text;
}

TextForm read_text_form(Parameters& rule, unsigned bits) {
  const std::string_view digits = read_encoding(rule);
  return {read_prefix(rule), digits, bits};
}

bool read_text_output(Parameters& rule, std::string_view own_type, unsigned bits, TextForm& form) {
  const bool is_string = rule.choice("output", {own_type, "string"}) == 1;
  form = read_text_form(rule, bits);
  const bool is_encoded = !form.alphabet.empty();
  if (is_encoded && !is_string && rule.given("output")) {
    rule.error("output",
               "must be string beside `encoding`, which makes the value a text: leave it out");
  }
  if (is_encoded) rule.falls_back_to("output", "string");
  if (!form.prefix.empty() && !is_string && !is_encoded) {
    rule.error("prefix", "needs a text to stand before: add `encoding`, or output: string");
  }
  return is_string || is_encoded;
}

std::string read_prefix(Parameters& rule) {
  std::string prefix = rule.text("prefix", "");
  const bool is_plain = std::ranges::all_of(prefix, [](char c) { return c >= ' ' && c <= '~'; });
  if (is_plain && prefix.size() <= kLongestPrefix) return prefix;
  rule.error("prefix", "must be at most 64 printable characters of ASCII, " +
                           (is_plain ? "has " + std::to_string(prefix.size())
                                     : std::string("and has others")));
  return {};
}

}  // namespace idproxy::ids
