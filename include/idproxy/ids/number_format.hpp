#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "idproxy/base/bytes.hpp"
#include "idproxy/bson/elements.hpp"
#include "idproxy/ids/counter_spec.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::ids {

/// Appends a number as int64, int32 (it must fit) or string: prefix, a minus sign if there is need
/// of one, at least `pad` digits, suffix. Example with pad 5, prefix "A-", suffix "/x":
/// -42 is A--00042/x.
void append_number(std::int64_t number, const NumberFormat& format, Values& out);

/// The text of a number with NumberFormat::Output::string.
[[nodiscard]] std::string number_text(std::int64_t number, const NumberFormat& format);

/// The number that a field of this format holds; nothing if the field's value is not one that
/// could meet one of ours. Output string: the text that append_number() writes, and no other.
/// Output int64 and int32: any BSON number that is an integer of 64 bits, since 7, Long 7, 7.0 and
/// Decimal 7 are one key to a unique index (docs/server-behaviour.md#_id-and-keys). `value` as
/// bson::Element has it.
[[nodiscard]] std::optional<std::int64_t> read_number(bson::Type type, Bytes value,
                                                      const NumberFormat& format);

}  // namespace idproxy::ids
