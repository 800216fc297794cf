#pragma once

#include <string>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"

namespace idproxy::id_store {

/// Why the collection's validator refuses each document that has this field, a dotted path, with
/// the remedy; empty: it does not, as far as its $jsonSchema says, or it cannot be read. Such a
/// schema permits no fields but those that it lists (additionalProperties: false).
[[nodiscard]] std::string closed_schema_fault(mongo::Client& client, const Namespace& ns,
                                              const std::string& field);

}  // namespace idproxy::id_store
