#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/pins.hpp"
#include "config/reader.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/net/tls.hpp"

namespace idproxy::config {

/// The servers, and where they are reached through us.
struct Servers {
  std::string written_uri;         ///< upstream.uri
  std::string uri;                 ///< the same, or the list of hosts that stands for it
  bool srv = false;                ///< it is mongodb+srv, and the list is not known yet: no routes
  bool direct = false;             ///< directConnection=true
  bool has_user = false;           ///< in it
  std::string replica_set;         ///< that it names
  net::Endpoint first;             ///< the first listener; all have its address
  std::vector<net::Route> routes;  ///< one listener per server, in the order of the URI
  std::string advertise;           ///< "" if there is none, or it has no effect
  std::vector<Pin> pins;           ///< those that have an effect
  std::vector<net::Endpoint> own;  ///< whoever connects there connects to us
  std::shared_ptr<const net::tls::Context> tls;  ///< towards them; null: plain
};

/// Reads `listen` and `upstream` and pairs them. `seed_list`, if not empty, is what upstream.uri, a
/// mongodb+srv string, stands for. `now` is for the dates of certificates.
[[nodiscard]] Servers read_servers(Reader& listen, Reader& upstream, const std::string& seed_list,
                                   std::chrono::sys_seconds now);

/// Reports hosts, the value of `key`, that are one of our own listeners; false if there are none.
bool refuse_own_listeners(const std::vector<net::Endpoint>& own,
                          const std::vector<net::Endpoint>& hosts, std::string_view key,
                          Reader& reader);

/// Reports pins to the port where something else of this process listens, the value of `key`.
void refuse_pins_at(const net::Endpoint& place, std::string_view key, const Servers& servers,
                    Reader& members);

/// The same for the ports of the URI's servers. What is reported at `admin` if it says where that
/// is, else at the port that leads there.
void refuse_listeners_at(const net::Endpoint& place, const Servers& servers, Reader& admin,
                         Reader& listen);

/// Splits "127.0.0.1:9216" or "[::1]:9216"; nothing if it is not an IP address with a port.
[[nodiscard]] std::optional<net::Endpoint> parse_address_and_port(const std::string& text);

}  // namespace idproxy::config
