#pragma once

#include "id_store/inspector_collections.hpp"
#include "idproxy/id_store/mongo.hpp"

namespace idproxy::id_store {

/// Sends the request and waits for the response.
[[nodiscard]] CatalogResponse send(mongo::Client client, const CatalogRequest& request);

}  // namespace idproxy::id_store
