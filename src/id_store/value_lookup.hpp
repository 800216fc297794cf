#pragma once

#include <string>
#include <vector>

#include "idproxy/id_store/mongo.hpp"
#include "idproxy/id_store/namespaces.hpp"
#include "idproxy/ids/values.hpp"

namespace idproxy::id_store {

/// Finds out which of the values, integers or strings, some document of the collection has in the
/// field, with one query through an index; `taken` gets as many elements. A document whose field is
/// an array, or a number of a form that a rule does not make, may be overlooked. Without an index
/// to read, or a collection, the reply is one that refuses.
[[nodiscard]] mongo::Reply look_up(mongo::Client& client, const Namespace& ns,
                                   const std::string& field, const ids::Values& values,
                                   std::vector<bool>& taken);

}  // namespace idproxy::id_store
