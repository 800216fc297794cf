#pragma once

#include <string>

#include "idproxy/net/options.hpp"

namespace idproxy::net {

/// Gives each of options.sockets to the route that listens at its address. Returns why one of them
/// has no route, or "". The name of a socket need not be that of a server, but must not be that of
/// another one.
[[nodiscard]] std::string hand_out_sockets(Options& options);

}  // namespace idproxy::net
