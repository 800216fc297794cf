#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "id_store/index.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::id_store {

/// Options of a unique index on one field, chosen so that no document is in its way, neither those
/// that are there nor those that upserts will add. To a unique index, a missing field is null.
enum class IndexForm {
  sparse,   ///< {sparse: true}: documents may lack the field
  plain,    ///< all of them have it; queries can sort the whole collection by the index
  partial,  ///< {partialFilterExpression: {field: {$type: …}}}: some have an explicit null
  /// {partialFilterExpression: {field: {$exists: true}}}: the key has further fields, and a sparse
  /// index would hold every document that has one of them.
  existing,
};

/// A unique index that can be made.
struct IndexOffer {
  IndexForm form = IndexForm::sparse;
  std::string name{};  ///< empty: the server's default, "<field>_1"; else that one is in use
  Repeats repeats{};   ///< its further fields
  /// The field's key is -1: another index has the ascending key, and the server takes one only.
  bool descending = false;
  friend bool operator==(const IndexOffer&, const IndexOffer&) = default;
};

/// The fields of the index's key, in its order.
[[nodiscard]] std::vector<std::string> key_fields(std::string_view field, const Repeats& repeats);
/// The server's default name for an index on these fields: "a_1_b_1", or "a_1_b_-1".
[[nodiscard]] std::string default_name(std::span<const std::string> fields,
                                       bool descending = false);
/// A name for a unique index on the field that none of these indexes has; empty: the default.
[[nodiscard]] std::string free_name(std::span<const Index> indexes, std::string_view field,
                                    const Repeats& repeats = {}, bool descending = false);
/// True if one of the indexes has exactly this key, ascending. Servers before 5.0 take no second
/// index with the same key, whatever its other options are (observed, 4.4.2).
[[nodiscard]] bool has_ascending_key(std::span<const Index> indexes,
                                     std::span<const std::string> fields);

/// The command that makes the index, as a person types it in mongosh. With Repeats::and_more, a
/// field is left for that person to fill in.
[[nodiscard]] std::string create_index_command(const Namespace& ns, std::string_view field,
                                               ValueType type, const IndexOffer& offer);

}  // namespace idproxy::id_store
