#pragma once

#include <mongoc/mongoc.h>

#include <string>

#include "idproxy/base/owned.hpp"

namespace idproxy::id_store::mongo {

/// Initialises libmongoc once, and cleans it up when the process ends.
void open_library();

/// Why this thread's last reply to hello that cannot be used was refused, which libmongoc does not
/// say of clients without a pool.
[[nodiscard]] std::string& last_refusal();

/// True while libmongoc wants a thread and the system refuses it: whoever has asked it for a server
/// waits meanwhile.
[[nodiscard]] bool waits_for_thread();

using Uri = Owned<mongoc_uri_t, mongoc_uri_destroy>;

}  // namespace idproxy::id_store::mongo
