#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/reader.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::config {

/// A server that has a port of its own.
struct Pin {
  std::string key;       ///< in the file
  net::Endpoint server;  ///< its name in lower case
  std::uint16_t port;
};

/// Reads `listen.members`: server -> port.
[[nodiscard]] std::vector<Pin> read_pins(Reader& members);

/// Null if the server has none.
[[nodiscard]] const Pin* pin_of(const net::Endpoint& server, const std::vector<Pin>& pins);

}  // namespace idproxy::config
