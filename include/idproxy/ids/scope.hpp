#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"

/// The values of a document's fields that decide which sequence its value comes from
/// (docs/templates.md#scope).
namespace idproxy::ids {

/// The value at a dotted path of a document.
struct FieldValue {
  enum class Is {
    missing,
    there,
    in_array,  ///< the path leads through an array
    twice,     ///< a name on the path occurs twice
  };
  Is is = Is::missing;
  bson::Element element{};  ///< there
};

/// The most bytes of a string or of binary data that can be a scope.
inline constexpr std::size_t kMostInScope = 256;

/// Appends a value under a name, in one form for all values that the server compares as equal:
/// integral numbers of any type as int64; strings, booleans, null, ObjectIds, dates and binary data
/// as they are. If the value cannot be a scope, because it is too long or of another type (a
/// fraction, an array, a document …), appends nothing and returns why, as half a sentence.
[[nodiscard]] std::string append_scope(Buffer& out, std::string_view name,
                                       const bson::Element& value);

/// A scope {field: value, …} in the form that mongoose-sequence writes: with UUIDs (binary data of
/// subtype 4) as text, since Mongoose's documents have them as such.
[[nodiscard]] std::string reference_value(std::string_view scope);

/// The same document with its values in the form of append_scope(); nothing if one of them cannot
/// be a scope.
[[nodiscard]] std::optional<std::string> as_scope(Bytes document);

/// Returns the value of a number of any type if it is an integer; nothing for fractions, integers
/// beyond int64, and other types. Unlike Element::as_integer(), it reads decimal128 and doubles
/// beyond 2^53, and no booleans.
[[nodiscard]] std::optional<std::int64_t> integer_of(const bson::Element& value);

/// The text of a value within a template: strings up to kMostInScope bytes, and integers. Nothing
/// for others.
[[nodiscard]] std::optional<std::string> text_in_template(const bson::Element& value);

}  // namespace idproxy::ids
