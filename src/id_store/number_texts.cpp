#include "id_store/number_texts.hpp"

#include <algorithm>
#include <string_view>

namespace idproxy::id_store {
namespace {

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/// Escapes text for PCRE, in whose patterns a NUL would be the end.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\0') {
      result += "\\x00";
      continue;
    }
    if (!is_word(c)) result += '\\';
    result += c;
  }
  return result;
}

/// At least one digit, even without a pad.
std::size_t width_of(const ids::NumberFormat& format) {
  return std::max<std::size_t>(format.pad, 1);
}

}  // namespace

TextClass class_of(std::int64_t number, const ids::NumberFormat& format) {
  const bool negative = number < 0;
  const std::size_t digits = std::to_string(number).size() - (negative ? 1 : 0);
  if (digits > width_of(format)) return negative ? TextClass::wide_negative : TextClass::wide;
  return negative ? TextClass::negative : TextClass::positive;
}

mongo::Document texts_of(TextClass which, const ids::NumberFormat& format,
                         const TextRange& within) {
  const std::string begin = format.prefix + (is_negative(which) ? "-" : "");
  const std::string width = std::to_string(width_of(format));
  // The number of digits distinguishes the classes: wide texts have more, without leading zeros.
  const std::string digits = is_wide(which) ? "[1-9][0-9]{" + width + ",}" : "[0-9]{" + width + "}";
  return mongo::Document()
      .add("$gte", within.from.value_or(begin + (is_wide(which) ? "1" : "0")))
      .add(within.to ? "$lte" : "$lt", within.to.value_or(begin + ":"))  // ':' follows '9'
      .add("$regex", "^" + escaped(begin) + digits + escaped(format.suffix) + "\\z");
}

}  // namespace idproxy::id_store
