#pragma once

#include <string_view>

#include "idproxy/base/bytes.hpp"

namespace idproxy::rewrite {

/// True if one of the dotted paths is the other, or contains it: "a" and "a.b", but not "a" and
/// "ab".
[[nodiscard]] bool overlap(std::string_view path, std::string_view other);

/// Whether a document names a field.
enum class Names { no, yes, malformed, too_deep };

/// Whether a filter names `field`, a document around it or something below it, at any depth: also
/// within $and, $or, $nor and $elemMatch, and in documents that are values. Each key counts both
/// with the path around it and alone.
[[nodiscard]] Names filter_names(Bytes filter, std::string_view field);

/// Whether the specification of a $set or $addFields stage does so: by a key, with the path around
/// it, or in an expression that reads the field ("$field", "$$ROOT.field", {$getField: "field"}).
[[nodiscard]] Names stage_names(Bytes specification, std::string_view field);

}  // namespace idproxy::rewrite
