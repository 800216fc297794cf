#pragma once

#include <string>

#include "idproxy/base/bytes.hpp"

namespace idproxy::id_store {

/// Why libmongoc must not see this reply to hello; empty: it may. What a server says of the members
/// of its set is put into no connection, and into no list, unless each is a HOST:PORT.
///
/// Of all that a hello can say, libmongoc 1.23 checks the types at the top level only: a member
/// that is no address, or no text, ends the process.
[[nodiscard]] std::string fault_of_hello(Bytes reply);

}  // namespace idproxy::id_store
