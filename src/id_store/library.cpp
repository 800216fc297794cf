#include "id_store/library.hpp"

#include <sys/mman.h>

#include <cerrno>

/// libmongoc's constructor would keep figures of its own in /dev/shm, which nobody reads, and leave
/// the file there when the process is killed. MONGOC_DISABLE_SHM=1 keeps it from that, but would
/// have to be in the environment that this process is started with. This program and its other
/// libraries share no memory by names, so libmongoc is told that the system has none, and takes
/// memory of its own.
extern "C" [[gnu::visibility("default")]] int shm_open(const char* /*name*/, int /*flags*/,
                                                       mode_t /*mode*/) {
  errno = ENOSYS;
  return -1;
}

namespace idproxy::id_store::mongo {
namespace {

/// libmongoc's messages go to standard error, beside the log, and may contain secrets. Everything
/// that an operator has to know is in the results of its functions, too.
void silence(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  mongoc_log_set_handler(nullptr, nullptr);
}

// libmongoc has a constructor that initialises it, before main() and all constructors of a program,
// and writes a first message ("Falling back to malloc for counters"). Only functions in this
// section come before that. A change of the environment would be too early there: libc has none
// yet.
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
