#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/parameters.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/net/tls.hpp"

namespace idproxy::config {

/// A server with a fixed port for its listener.
struct Pin {
  std::string key;       ///< as written in the file
  net::Endpoint server;  ///< with the name in lower case
  std::uint16_t port;
};

/// Reads `listen.members`: server -> port.
[[nodiscard]] std::vector<Pin> read_pins(Parameters& members);

/// The server's pin; null if it has none.
[[nodiscard]] const Pin* pin_of(const net::Endpoint& server, const std::vector<Pin>& pins);

/// The servers and their listeners.
struct Servers {
  std::string written_uri;         ///< upstream.uri
  std::string uri;                 ///< the same, or the mongodb:// string that it resolves to
  bool srv = false;                ///< `uri` is an unresolved mongodb+srv string: no routes
  bool direct = false;             ///< directConnection=true
  bool has_user = false;           ///< `uri` has a user name
  std::string replica_set;         ///< replicaSet of `uri`; empty: none
  net::Endpoint first;             ///< the first listener; all listeners have its address
  std::vector<net::Route> routes;  ///< one listener per server, in the order of the URI
  std::string advertise;           ///< empty if not set or without effect
  std::vector<Pin> pins;           ///< without those that have no effect
  std::vector<net::Endpoint> own;  ///< addresses that lead to this proxy's listeners
  std::shared_ptr<const net::tls::Context> tls;  ///< for connections to the servers; null: plain
};

/// Reads `listen` and `upstream`, and gives each server its listener. `seed_list` as for parse().
/// `now` is compared with the dates of certificates.
[[nodiscard]] Servers read_servers(Parameters& listen, Parameters& upstream,
                                   const std::string& seed_list, std::chrono::sys_seconds now);

/// Reports each of `hosts`, the value of `key`, that is one of the proxy's own listeners. Returns
/// true if it reported any.
bool refuse_own_listeners(const std::vector<net::Endpoint>& own,
                          const std::vector<net::Endpoint>& hosts, std::string_view key,
                          Parameters& reader);

/// Reports pins to a port at which this process listens for something else, the value of `key`.
void refuse_pins_at(const net::Endpoint& place, std::string_view key, const Servers& servers,
                    Parameters& members);

/// The same for the listeners of the URI's servers. Reports at admin.listen if it is set, else at
/// listen.port.
void refuse_listeners_at(const net::Endpoint& place, const Servers& servers, Parameters& admin,
                         Parameters& listen);

/// True for what may be a host name, and for an IP address, both without brackets and port.
[[nodiscard]] bool is_host(const std::string& text);

/// Parses "127.0.0.1:27216" or "[::1]:27216"; nothing if the text is not an IP address with a port.
[[nodiscard]] std::optional<net::Endpoint> parse_address_and_port(const std::string& text);

}  // namespace idproxy::config
