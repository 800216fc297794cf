#include "id_store/number_texts.hpp"

#include <algorithm>
#include <string_view>

#include "idproxy/base/regex.hpp"

namespace idproxy::id_store {
namespace {

/// At least one digit, even without a pad.
std::size_t width_of(const ids::NumberFormat& format) {
  return std::max<std::size_t>(format.pad, 1);
}

/// The pattern for the text behind the number, check digits included.
std::string pattern_behind(const ids::NumberFormat& format) {
  const std::string_view suffix = format.suffix;
  if (format.check == ids::Check::none) return escaped_for_regex(suffix);
  return escaped_for_regex(suffix.substr(0, format.check_at)) + "[0-9]{" +
         std::to_string(ids::width_of(format.check)) + "}" +
         escaped_for_regex(suffix.substr(format.check_at));
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
      .add("$regex", "^" + escaped_for_regex(begin) + digits + pattern_behind(format) + "\\z");
}

std::string pattern_of_all(const ids::NumberFormat& format) {
  return "^" + escaped_for_regex(format.prefix) + "([0-9]{" + std::to_string(width_of(format)) +
         ",})" + pattern_behind(format) + "\\z";
}

}  // namespace idproxy::id_store
