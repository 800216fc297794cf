#include "idproxy/base/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "idproxy/base/utf8.hpp"

namespace idproxy {
namespace {

constexpr std::string_view kEllipsis = "…";
constexpr std::string_view kUnknown = "\xef\xbf\xbd";  // U+FFFD
constexpr std::size_t kLongestName = 160;

/// False for characters that end a line, control a terminal, or change the direction of the text
/// after them (UAX 9), and for those that nobody sees: Unicode's Default_Ignorable_Code_Point, and
/// the empty pattern of Braille.
bool is_shown(char32_t c) {
  if (c >= 0x20 && c < 0x7f) return true;
  constexpr auto kHidden = std::to_array<std::pair<char32_t, char32_t>>(
      {{0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
       {0x61c, 0x61c},   {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},
       {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},   {0x2800, 0x2800},
       {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},
       {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}});
  return std::ranges::none_of(
      kHidden, [&](const auto& range) { return c >= range.first && c <= range.second; });
}

/// "\u001b"; above U+FFFF, as in JSON, two of them.
void append_escape(std::string& out, std::uint32_t code) {
  if (code > 0xffff) {
    append_escape(out, 0xd800 + ((code - 0x10000) >> 10U));
    return append_escape(out, 0xdc00 + (code & 0x3ffU));
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u";
  for (const unsigned shift : {12U, 8U, 4U, 0U}) out += kDigits[(code >> shift) & 15U];
}

}  // namespace

void append_printable(std::string& out, std::string_view text, std::string_view escaped,
                      std::size_t most) {
  const std::size_t begin = out.size();
  while (!text.empty()) {
    const auto [code_point, size] = first_character(text);
    const std::size_t before = out.size();
    if (!is_shown(code_point)) {
      append_escape(out, static_cast<std::uint32_t>(code_point));
    } else if (code_point == kReplacementCharacter) {
      out += kUnknown;
    } else {
      if (escaped.find(text[0]) != std::string_view::npos) out += '\\';
      out += text.substr(0, size);
    }
    if (out.size() - begin > most) {
      out.resize(before);
      out += kEllipsis;
      return;
    }
    text.remove_prefix(size);
  }
}

std::string cut_off(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return std::string(text.substr(0, most)).append(kEllipsis);
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  append_printable(out, text, {}, most);
  return out;
}

bool is_printable(std::string_view text) {
  return printable(text) == text;
}

std::string in_quotes(std::string_view text, std::size_t most) {
  std::string out = "\"";
  append_printable(out, text, "\"\\", most);
  return out + '"';
}

std::string named(std::string_view name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.$";
  const bool is_plain = !name.empty() && name.size() <= kLongestName &&
                        name.find_first_not_of(kPlain) == std::string_view::npos;
  return is_plain ? std::string(name) : in_quotes(name, kLongestName);
}

}  // namespace idproxy
