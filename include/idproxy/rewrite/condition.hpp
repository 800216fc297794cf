#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/ids/scope.hpp"

/// Conditions of a rule on the documents that it gives values to (`when`). They compare as the
/// server does with the simple collation: numbers of all types by their value, null with a field
/// that is missing. No array fulfils a condition, and nothing in one does.
namespace idproxy::rewrite {

struct Condition {
  std::string field;  ///< dotted path
  std::optional<bool> exists{};
  /// Without `exists`: one of these. BSON elements without a name, in the form of
  /// ids::append_scope().
  std::vector<std::string> values{};
};

[[nodiscard]] bool holds(const Condition& condition, const ids::FieldValue& value);
/// True if all of them hold; nothing if the document is malformed.
[[nodiscard]] std::optional<bool> all_hold(std::span<const Condition> conditions, Bytes document);
/// Appends the elements of a filter that finds the documents for which all of them hold; one of
/// them is `$nor`.
void append_filter(std::span<const Condition> conditions, Buffer& out);

}  // namespace idproxy::rewrite
