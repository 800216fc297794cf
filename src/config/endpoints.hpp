#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/pins.hpp"
#include "config/reader.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::config {

/// The servers, and where they are reached through us.
struct Servers {
  std::string uri;                 ///< upstream.uri, or the list of hosts that stands for it
  bool srv = false;                ///< it is mongodb+srv, and the list is not known yet: no routes
  bool direct = false;             ///< directConnection=true
  bool has_user = false;           ///< in it
  std::string replica_set;         ///< that it names
  net::Endpoint first;             ///< the first listener; all have its address
  std::vector<net::Route> routes;  ///< one listener per server, in the order of the URI
  std::string advertise;           ///< "" if there is none, or it has no effect
  std::vector<Pin> pins;           ///< those that have an effect
  std::vector<net::Endpoint> own;  ///< whoever connects there connects to us
};

/// Reads `listen` and `upstream` and pairs them. `seed_list`, if not empty, is what upstream.uri, a
/// mongodb+srv string, stands for.
[[nodiscard]] Servers read_servers(Reader& listen, Reader& upstream, const std::string& seed_list);

/// Reports hosts, the value of `key`, that are one of our own listeners; false if there are none.
bool refuse_own_listeners(const std::vector<net::Endpoint>& own,
                          const std::vector<net::Endpoint>& hosts, std::string_view key,
                          Reader& reader);

/// Reports pins to the port where something else of this process listens, the value of `key`.
void refuse_pins_at(const net::Endpoint& place, std::string_view key, const Servers& servers,
                    Reader& members);

/// Splits "127.0.0.1:9216" or "[::1]:9216"; nothing if it is not an IP address with a port.
[[nodiscard]] std::optional<net::Endpoint> parse_address_and_port(const std::string& text);

}  // namespace idproxy::config
