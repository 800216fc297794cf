#pragma once

#include "id_store/inspector_collections.hpp"
#include "id_store/mongo.hpp"

namespace idproxy::id_store {

/// Asks the server, which blocks.
[[nodiscard]] Answer ask(mongo::Client& client, const Question& question);

}  // namespace idproxy::id_store
