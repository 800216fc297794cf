#pragma once

#include <vector>

#include "config/reader.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::config {

/// Reads `listen` and `upstream` and pairs them: one listener per server, in the order of the URI.
[[nodiscard]] std::vector<net::Route> read_routes(Reader& listen, Reader& upstream);

/// Reports hosts, the value of `key`, that are one of our own listeners; false if there are none.
bool refuse_own_listeners(const std::vector<net::Route>& routes,
                          const std::vector<net::Endpoint>& hosts, std::string_view key,
                          Reader& reader);

/// Splits "127.0.0.1:9216" or "[::1]:9216"; nothing if it is not an IP address with a port.
[[nodiscard]] std::optional<net::Endpoint> parse_address_and_port(const std::string& text);

}  // namespace idproxy::config
