#pragma once

#include <mongoc/mongoc.h>

#include "idproxy/base/owned.hpp"

namespace idproxy::id_store::mongo {

/// Initialises libmongoc once, and cleans it up when the process ends.
void open_library();

using Uri = Owned<mongoc_uri_t, mongoc_uri_destroy>;

}  // namespace idproxy::id_store::mongo
