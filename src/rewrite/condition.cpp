#include "idproxy/rewrite/condition.hpp"

#include <algorithm>

#include "idproxy/base/regex.hpp"
#include "idproxy/base/utf8.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/document_fields.hpp"

namespace idproxy::rewrite {
namespace {

using Is = ids::FieldValue::Is;

/// {<path>: {$type: "array"}} of the field and of all that is around it.
void append_arrays(const std::string& field, std::size_t& place, Buffer& out) {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = field.find('.', end == 0 ? 0 : end + 1);
    bson::append_inside(out, bson::Type::document, std::to_string(place++), [&] {
      bson::append_inside(out, bson::Type::document, field.substr(0, end),
                          [&] { bson::append_string(out, "$type", "array"); });
    });
  }
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character next = first_character(text);
    if (next.code_point == kReplacementCharacter && next.size == 1) return false;
    text.remove_prefix(next.size);
  }
  return true;
}

void append_condition(const Condition& condition, Buffer& out) {
  if (condition.exists) return bson::append_bool(out, "$exists", *condition.exists);
  bson::append_inside(out, bson::Type::array, "$in", [&] {
    std::size_t place = 0;
    for (const std::string& each : condition.values) {
      const auto type = static_cast<bson::Type>(each.front());
      const Bytes value = as_bytes(each).subspan(2);
      const bool is_string = type == bson::Type::string;
      const std::string_view text =
          is_string ? as_text(value.subspan(4, value.size() - 5)) : std::string_view();
      // No collation takes other texts for equal to a regular expression's. A server refuses one
      // that is no UTF-8.
      if (is_string && is_utf8(text)) {
        bson::append_head(out, bson::Type::regex, std::to_string(place++));
        out.append(as_bytes("^" + escaped_for_regex(text) + "\\z"));
        out.append(as_bytes(std::string_view("\0\0", 2)));  // its end, and no options
      } else {
        bson::append_head(out, type, std::to_string(place++));
        out.append(value);
      }
    }
  });
}

}  // namespace

bool holds(const Condition& condition, const ids::FieldValue& value) {
  const bool is_there = value.is == Is::there;
  if (!is_there && value.is != Is::missing) return false;
  if (is_there && value.element.type == bson::Type::array) return false;
  if (condition.exists) return *condition.exists == is_there;
  bson::Element element = value.element;
  if (!is_there) element.type = bson::Type::null;
  Buffer own;
  return ids::append_scope(own, "", element).empty() &&
         std::ranges::find(condition.values, as_text(own.view())) != condition.values.end();
}

std::optional<bool> all_hold(std::span<const Condition> conditions, Bytes document) {
  for (const Condition& each : conditions) {
    const auto value = field_at(document, each.field);
    if (!value) return std::nullopt;
    if (!holds(each, *value)) return false;
  }
  return true;
}

void append_filter(std::span<const Condition> conditions, Buffer& out) {
  if (conditions.empty()) return;
  for (const Condition& each : conditions) {
    bson::append_inside(out, bson::Type::document, each.field,
                        [&] { append_condition(each, out); });
  }
  std::size_t place = 0;
  bson::append_inside(out, bson::Type::array, "$nor", [&] {
    for (const Condition& each : conditions) append_arrays(each.field, place, out);
  });
}

}  // namespace idproxy::rewrite
