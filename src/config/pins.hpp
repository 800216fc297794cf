#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/reader.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::config {

/// A server with a fixed port for its listener.
struct Pin {
  std::string key;       ///< as written in the file
  net::Endpoint server;  ///< with the name in lower case
  std::uint16_t port;
};

/// Reads `listen.members`: server -> port.
[[nodiscard]] std::vector<Pin> read_pins(Reader& members);

/// The server's pin; null if it has none.
[[nodiscard]] const Pin* pin_of(const net::Endpoint& server, const std::vector<Pin>& pins);

}  // namespace idproxy::config
