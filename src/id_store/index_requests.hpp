#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "id_store/index.hpp"
#include "id_store/index_advice.hpp"
#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"

/// Questions to the server about indexes, and their creation. Each call waits for the server.
namespace idproxy::id_store {

// Server error codes of createIndexes.
inline constexpr std::int32_t kIndexOptionsConflict = 85;
inline constexpr std::int32_t kIndexKeySpecsConflict = 86;

/// Appends the collection's indexes to `indexes`.
[[nodiscard]] mongo::Reply list_indexes(mongo::Client& client, const Namespace& ns,
                                        std::vector<Index>& indexes);

/// The unique index that fits the collection's documents. Without `repeats`, looks at them for two
/// seconds at most; what it cannot find out in that time makes the index sparse. `indexes`: of the
/// collection.
[[nodiscard]] IndexOffer offer_index(mongo::Client& client, const Namespace& ns,
                                     std::string_view field, ValueType type,
                                     const std::vector<Index>& indexes,
                                     const Repeats& repeats = {});

/// The same as a command to type, for messages. Lists the indexes itself.
[[nodiscard]] std::string advise_index(mongo::Client& client, const Namespace& ns,
                                       std::string_view field, ValueType type,
                                       const Repeats& repeats = {});

/// Makes the index that offer_index() finds, unless there is one that guards the field, perhaps
/// made by another proxy meanwhile.
[[nodiscard]] mongo::Reply make_index(mongo::Client& client, const Namespace& ns,
                                      std::string_view field, ValueType type,
                                      const Repeats& repeats = {});

}  // namespace idproxy::id_store
