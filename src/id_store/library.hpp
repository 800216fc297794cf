#pragma once

#include <mongoc/mongoc.h>

#include <memory>

namespace idproxy::id_store::mongo {

/// Initialises libmongoc once, and cleans it up when the process ends.
inline void open_library() {
  struct Library {
    Library() {
      mongoc_log_set_handler(nullptr, nullptr);  // its messages may contain secrets
      mongoc_init();
    }
    ~Library() { mongoc_cleanup(); }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
  };
  static const Library library;
}

struct DestroyUri {
  void operator()(mongoc_uri_t* uri) const { mongoc_uri_destroy(uri); }
};
using Uri = std::unique_ptr<mongoc_uri_t, DestroyUri>;

}  // namespace idproxy::id_store::mongo
