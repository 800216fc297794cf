#include "id_store/library.hpp"

namespace idproxy::id_store::mongo {
namespace {

/// libmongoc's messages go to standard error, beside the log, and may contain secrets. Everything
/// that an operator has to know is in the results of its functions, too.
void silence(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  mongoc_log_set_handler(nullptr, nullptr);
}

// libmongoc has a constructor that initialises it, before main() and all constructors of a program,
// and may write a first message ("Falling back to malloc for counters", if a killed process with
// the same number left its file in /dev/shm, as in containers). Only functions in this section come
// before that. A change of the environment would be too early there: libc has none yet.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kBeforeLibraries)(int, char**,
                                                                             char**) = silence;

}  // namespace

void open_library() {
  struct Library {
    Library() { mongoc_init(); }
    ~Library() { mongoc_cleanup(); }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
  };
  static const Library library;
}

}  // namespace idproxy::id_store::mongo
