#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "id_store/index.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"

/// The unique index that fits a field: its form, the command that makes it, and its creation. A
/// call with a client waits for the server.
namespace idproxy::id_store {

// Server error codes of createIndexes.
inline constexpr std::int32_t kIndexOptionsConflict = 85;
inline constexpr std::int32_t kIndexKeySpecsConflict = 86;

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
  /// The field's key is -1: another index has the ascending key, and the server takes one only.
  bool descending = false;
  friend bool operator==(const IndexOffer&, const IndexOffer&) = default;
};

/// A name for a unique index on the field that none of these indexes has; empty: the default.
[[nodiscard]] std::string free_name(std::span<const Index> indexes, const UniqueField& field,
                                    bool descending = false);

/// The command that makes the index, as a person types it in mongosh. With Repeats::and_more, a
/// field is left for that person to fill in.
[[nodiscard]] std::string create_index_command(const Namespace& ns, const UniqueField& field,
                                               const IndexOffer& offer);

/// Appends the collection's indexes to `indexes`.
[[nodiscard]] mongo::Reply list_indexes(mongo::Client& client, const Namespace& ns,
                                        std::vector<Index>& indexes);

/// The unique index that fits the collection's documents. If values must not repeat, looks at them
/// for two seconds at most; what it cannot find out in that time makes the index sparse. `indexes`:
/// of the collection.
[[nodiscard]] IndexOffer offer_index(mongo::Client& client, const Namespace& ns,
                                     const UniqueField& field, std::span<const Index> indexes);

/// The same as a command to type, for messages. Lists the indexes itself.
[[nodiscard]] std::string advise_index(mongo::Client& client, const Namespace& ns,
                                       const UniqueField& field);

/// Makes the index that offer_index() finds, unless there is one that guards the field, perhaps
/// made by another proxy meanwhile.
[[nodiscard]] mongo::Reply make_index(mongo::Client& client, const Namespace& ns,
                                      const UniqueField& field);

}  // namespace idproxy::id_store
