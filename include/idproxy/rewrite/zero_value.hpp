#pragma once

#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/scope.hpp"
#include "idproxy/rewrite/rule.hpp"

/// Zero values, which typed languages send for fields that were never set
/// (docs/drivers.md#zero-values).
namespace idproxy::rewrite {

/// True for an ObjectId of zeros, and for a UUID of zeros: binary data of subtype 3 or 4.
[[nodiscard]] bool is_zero_id(const bson::Element& value);

/// True for null, a number equal to 0, an empty string, and is_zero_id(). Inline for inserts, which
/// ask this of each value that stays.
[[nodiscard]] inline bool is_zero(const bson::Element& value) {
  switch (value.type) {
    case bson::Type::null:
      return true;
    case bson::Type::int32:
      return load_i32(value.value.data()) == 0;
    case bson::Type::int64:
      return load_i64(value.value.data()) == 0;
    case bson::Type::number_double:
    case bson::Type::decimal128:
      return ids::integer_of(value) == 0;
    case bson::Type::string:
      return value.text().empty();
    case bson::Type::object_id:
      return value.value.front() == 0 && is_zero_id(value);
    case bson::Type::binary:
      return is_zero_id(value);
    default:
      return false;
  }
}

/// True if the rule assigns a value in place of this one, no matter who made it.
[[nodiscard]] bool replaces(Assign assign, const bson::Element& value);
/// Appends the condition of a filter, {field: {…}}, for values that the rule calls missing in a
/// stored document: of these, with Assign::driver and Assign::always only null, since a value that
/// is there stays.
void append_missing(Assign assign, Buffer& out);
/// True if the rule leaves this value, but would replace it with Assign::missing_or_zero.
[[nodiscard]] bool leaves_zero(Assign assign, const bson::Element& value);

}  // namespace idproxy::rewrite
