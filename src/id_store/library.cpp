#include "id_store/library.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "id_store/hello_guard.hpp"
#include "idproxy/threads/threads.hpp"

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

namespace {

/// Why libmongoc must not see the reply; empty: it may.
std::string fault_of(const bson_t* reply) {
  if (reply == nullptr || bson_empty(reply)) return "";
  return idproxy::id_store::fault_of_hello({bson_get_data(reply), reply->len});
}

/// libmongoc's function that the caller is instead of.
template <class Function>
Function* library_function(const char* name) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dlsym() has no other type
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

using StartThread = decltype(::pthread_create);

std::atomic<int> waiting_for_threads{0};

/// A thread of libmongoc: its function is.
bool is_of_library(void* (*run)(void*)) {
  Dl_info place{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): dladdr() has no other type
  return ::dladdr(reinterpret_cast<void*>(run), &place) != 0 && place.dli_fname != nullptr &&
         std::string_view(place.dli_fname).find("libmongoc") != std::string_view::npos;
}

}  // namespace

/// What sanitizers have in place of pthread_create(), if there is one here.
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): it has this name
extern "C" [[gnu::weak]] StartThread __interceptor_pthread_create;

/// libmongoc takes it for granted that the thread of a server's monitor starts, and never asks that
/// server if it does not. So its threads wait until the system has one for them; those of a command
/// for some seconds.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*run)(void*),
                                                             void* argument) noexcept {
  constexpr std::chrono::milliseconds kPause{100};
  constexpr int kPausesOfACommand = 30;
  static auto* const its = &__interceptor_pthread_create != nullptr
                               ? &__interceptor_pthread_create
                               : library_function<StartThread>("pthread_create");
  int error = its(thread, attributes, run, argument);
  if (error != EAGAIN || !is_of_library(run)) return error;
  ++waiting_for_threads;
  for (int i = 0; error == EAGAIN && (idproxy::threads::are_awaited() || i < kPausesOfACommand);
       ++i) {
    idproxy::threads::refused(std::generic_category().message(error).c_str());
    std::this_thread::sleep_for(kPause);
    error = its(thread, attributes, run, argument);
  }
  --waiting_for_threads;
  return error;
}

// libmongoc's own functions of these names, which all replies to hello come through: those to its
// monitors, to each new connection, and of clients without a pool. No callback of its interface
// comes before them. Debian's library lets programs replace both; a test sends each kind of lie,
// with a user in the connection string and without.

/// Where it learns what a server is.
extern "C" [[gnu::visibility("default")]] void mongoc_server_description_handle_hello(
    mongoc_server_description_t* server, const bson_t* reply, std::int64_t round_trip_ms,
    const bson_error_t* error) {
  static auto* const its =
      library_function<decltype(mongoc_server_description_handle_hello)>(__func__);
  const std::string fault = fault_of(reply);
  if (fault.empty()) return its(server, reply, round_trip_ms, error);
  idproxy::id_store::mongo::last_refusal() = fault;
  bson_error_t refusal{};
  bson_set_error(&refusal, MONGOC_ERROR_PROTOCOL, MONGOC_ERROR_PROTOCOL_INVALID_REPLY, "%s",
                 fault.c_str());
  its(server, nullptr, -1, &refusal);  // the round trip is not known
}

/// Where it takes the first step of a login from the same reply, whatever the function above was
/// told of it. It ends the process if that is no document.
extern "C" [[gnu::visibility("default")]] void
// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): it has this name
_mongoc_topology_scanner_parse_speculative_authentication(const bson_t* reply, bson_t* login) {
  static auto* const its =
      library_function<decltype(_mongoc_topology_scanner_parse_speculative_authentication)>(
          __func__);
  if (fault_of(reply).empty()) its(reply, login);
}

/// libmongoc begins with the SASL library when the program starts, which loads all of its plugins
/// and what they need: 0.7 MB, of use only for a login by GSSAPI. So the first such login begins
/// with it.
extern "C" [[gnu::visibility("default")]] int sasl_client_init(const void* /*callbacks*/) {
  return 0;  // SASL_OK
}

/// What libmongoc asks first for such a login: which mechanisms there are.
extern "C" [[gnu::visibility("default")]] const char** sasl_global_listmech() {
  static const bool begun = library_function<int(const void*)>("sasl_client_init")(nullptr) == 0;
  static const char* none = nullptr;
  const char** all = begun ? library_function<const char**()>("sasl_global_listmech")() : nullptr;
  return all == nullptr ? &none : all;  // libmongoc reads to the first null
}

namespace idproxy::id_store::mongo {

bool waits_for_thread() {
  return waiting_for_threads > 0;
}

std::string& last_refusal() {
  thread_local std::string why;
  return why;
}

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
