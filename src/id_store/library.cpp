#include "id_store/library.hpp"

namespace idproxy::id_store::mongo {
namespace {

/// Initialises libmongoc once, and cleans it up when the process ends.
class Library {
 public:
  Library() {
    mongoc_log_set_handler(nullptr, nullptr);  // its messages may contain secrets
    mongoc_init();
  }
  ~Library() { mongoc_cleanup(); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
};

}  // namespace

void open_library() {
  static const Library library;
}

}  // namespace idproxy::id_store::mongo
