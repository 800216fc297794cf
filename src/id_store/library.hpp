#pragma once

#include <mongoc/mongoc.h>

#include <memory>

namespace idproxy::id_store::mongo {

/// Initialises libmongoc once, and cleans it up when the process ends.
void open_library();

struct DestroyUri {
  void operator()(mongoc_uri_t* uri) const { mongoc_uri_destroy(uri); }
};
using Uri = std::unique_ptr<mongoc_uri_t, DestroyUri>;

}  // namespace idproxy::id_store::mongo
