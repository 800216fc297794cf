#pragma once

#include <string>
#include <vector>

#include "config/reader.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::config {

/// The servers, and where they are reached through us.
struct Servers {
  std::vector<net::Route> routes;  ///< one listener per server, in the order of the URI
  std::string uri;                 ///< upstream.uri
  bool has_user = false;           ///< in it
};

/// Reads `listen` and `upstream` and pairs them.
[[nodiscard]] Servers read_servers(Reader& listen, Reader& upstream);

/// Reports hosts, the value of `key`, that are one of our own listeners; false if there are none.
bool refuse_own_listeners(const std::vector<net::Route>& routes,
                          const std::vector<net::Endpoint>& hosts, std::string_view key,
                          Reader& reader);

/// Splits "127.0.0.1:9216" or "[::1]:9216"; nothing if it is not an IP address with a port.
[[nodiscard]] std::optional<net::Endpoint> parse_address_and_port(const std::string& text);

}  // namespace idproxy::config
