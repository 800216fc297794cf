#pragma once

#include <optional>
#include <string_view>

#include "idproxy/ids/reservations.hpp"
#include "idproxy/ids/scope.hpp"

namespace idproxy::rewrite {

[[nodiscard]] inline ids::TypedValue typed(bson::Type type, Bytes value) {
  return {type, std::string(as_text(value))};
}

/// Returns the value at a dotted path of a document. Nothing if a document on the path is
/// malformed.
[[nodiscard]] std::optional<ids::FieldValue> field_at(Bytes document, std::string_view path);

}  // namespace idproxy::rewrite
