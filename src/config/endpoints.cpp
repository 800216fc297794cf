#include "config/endpoints.hpp"

#include <sys/un.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "config/addresses.hpp"
#include "config/connection_string.hpp"
#include "config/tls_keys.hpp"
#include "idproxy/base/server_address.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

/// Splits "db2.internal:27017" or "[::1]:27017", as replica sets name their members. Nothing if the
/// port is none, or if brackets are missing around an IPv6 address, or around anything else.
std::optional<net::Endpoint> split_port(const std::string& text) {
  auto parts = split_host_port(text);
  if (!parts || parts->bracketed != (parts->host.find(':') != std::string::npos)) {
    return std::nullopt;
  }
  return net::Endpoint{std::move(parts->host), parts->port, {}};
}

std::optional<net::Endpoint> parse_server(const std::string& text) {
  auto server = split_port(text);
  if (!server || server->port == 0 || server->host.empty()) return std::nullopt;
  server->host = ascii_lower(server->host);
  const bool is_v6 = server->host.find(':') != std::string::npos;
  if (server->host.find_first_of(" \t\r\n/@,") != std::string::npos) return std::nullopt;
  if (is_v6 && address_bytes(server->host).empty()) return std::nullopt;
  return server;
}

/// How the pin conflicts with those before it, or "".
std::string conflict(const Pin& pin, const std::vector<Pin>& pins) {
  if (const Pin* other = pin_of(pin.server, pins)) {
    return "is the same server as " + other->key;
  }
  const auto has_port = [&](const Pin& other) { return other.port == pin.port; };
  if (std::ranges::none_of(pins, has_port)) return {};
  return "port " + std::to_string(pin.port) + " is pinned twice";
}

constexpr std::string_view kDefaultAddress = "127.0.0.1";
constexpr std::string_view kDefaultUri = "mongodb://127.0.0.1:27017";
constexpr std::uint16_t kDefaultPort = 27117;
constexpr std::string_view kUnixPrefix = "unix:";

net::Endpoint unix_endpoint(const std::string& path, Parameters& listen) {
  if (!path.starts_with('/')) listen.error("address", "the path behind 'unix:' must begin with /");
  const std::size_t limit = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > limit) {
    listen.error("address", "the path of a Unix socket must have at most " + std::to_string(limit) +
                                " bytes, has " + std::to_string(path.size()));
  }
  net::Endpoint endpoint;
  endpoint.unix_path = path;
  return endpoint;
}

net::Endpoint read_address(Parameters& listen) {
  const std::string address = listen.text("address", kDefaultAddress);
  if (address.starts_with(kUnixPrefix)) {
    return unix_endpoint(address.substr(kUnixPrefix.size()), listen);
  }
  if (address_bytes(address).empty()) {
    listen.error("address",
                 "must be an IP address (no host name, brackets or port) or unix:/path, is '" +
                     shown(address) + "'");
  }
  net::Endpoint endpoint;
  endpoint.host = address;
  return endpoint;
}

/// The host name or address to tell clients instead of listen.address. It must not include a port:
/// the proxy appends each listener's own.
std::string read_advertise(Parameters& listen) {
  const auto name = listen.optional_text("advertise");
  if (!name) return {};
  if (!is_host(*name)) {
    listen.error("advertise",
                 "must be a host name or an IP address, without brackets or port, is '" +
                     shown(*name) + "'");
  } else if (is_any(*name)) {
    listen.error("advertise",
                 "must be an address that clients can connect to, is '" + shown(*name) + "'");
  }
  return *name;
}

std::optional<ConnectionString> read_uri(Parameters& upstream, const std::string& seed_list,
                                         std::chrono::sys_seconds now, Servers& servers) {
  servers.written_uri = upstream.text("uri", kDefaultUri);
  servers.uri = seed_list.empty() ? servers.written_uri : seed_list;
  auto uri = parse_connection_string(servers.uri, "uri", upstream);
  if (!uri) return uri;
  servers.tls = make_server_tls(*uri, "uri", now, upstream);
  servers.srv = uri->srv;
  servers.direct = uri->direct;
  servers.has_user = uri->has_user;
  servers.replica_set = uri->replica_set;
  return uri;
}

/// Checks that clients can connect to the address that they are told.
void check_address(const Servers& servers, Parameters& listen) {
  if (servers.direct) return;
  const net::Endpoint& first = servers.first;
  if (is_any(first.host) && servers.advertise.empty()) {
    listen.error("address",
                 "clients of a replica set are told this address and cannot connect to " +
                     first.host +
                     ": set listen.advertise to the name or address by which they reach this host, "
                     "or directConnection=true in upstream.uri");
  }
  if (!first.unix_path.empty() && !first.unix_path.ends_with(".sock")) {
    listen.warning("address", "drivers accept a Unix socket's path only if it ends in .sock");
  }
}

/// Removes settings that have no effect, with a warning.
void drop_what_has_no_effect(const std::vector<net::Endpoint>& hosts, Servers& servers,
                             Parameters& listen) {
  const bool is_unix = !servers.first.unix_path.empty();
  if (!is_unix && !servers.direct) return;
  const std::string why = is_unix
                              ? "has no effect: with a Unix socket there is one listener, its path"
                              : "has no effect: with directConnection=true there is one listener";
  if (!servers.advertise.empty()) listen.warning("advertise", why);
  servers.advertise.clear();
  const auto is_needed = [&](const Pin& pin) {
    return !is_unix && !hosts.empty() && pin_of(hosts.front(), {pin}) != nullptr;
  };
  for (const Pin& pin : servers.pins) {
    if (!is_needed(pin)) listen.section("members").warning(pin.key, why);
  }
  std::erase_if(servers.pins, std::not_fn(is_needed));
}

/// The listener of the server at `position`; nothing if its port would be too high.
std::optional<net::Endpoint> listener_of(std::size_t position, const net::Endpoint& first) {
  net::Endpoint listener = first;
  if (first.port == 0) return listener;
  const std::int64_t port = first.port + static_cast<std::int64_t>(position);
  if (port > net::kMaxPort) return std::nullopt;
  listener.port = static_cast<std::uint16_t>(port);
  return listener;
}

net::Endpoint pinned_to(const Pin& pin, net::Endpoint listener) {
  listener.port = pin.port;
  return listener;
}

void refuse_pin_of(const net::Route& route, const std::vector<Pin>& pins, Parameters& members) {
  if (route.listen.port == 0) return;
  for (const Pin& pin : pins) {
    if (pin.port != route.listen.port) continue;
    members.error(pin.key, "port " + std::to_string(pin.port) + " is that of " +
                               route.upstream.text() +
                               " in upstream.uri: pin that server, too, or take another port");
  }
}

std::vector<net::Route> pair_up(const Servers& servers, std::vector<net::Endpoint> hosts,
                                Parameters& listen) {
  const net::Endpoint& first = servers.first;
  if (!first.unix_path.empty() && hosts.size() > 1) {
    listen.warning("address", "a Unix socket serves the first server of upstream.uri only, " +
                                  hosts.front().text());
    hosts.resize(1);
  }
  std::vector<net::Route> routes;
  for (const net::Endpoint& host : hosts) {
    const Pin* pin = pin_of(host, servers.pins);
    const auto listener = pin ? pinned_to(*pin, first) : listener_of(routes.size(), first);
    if (!listener) {
      listen.error("port", "must leave a port up to 65535 for each of the " +
                               std::to_string(hosts.size()) + " servers of upstream.uri, is " +
                               std::to_string(first.port));
      break;
    }
    routes.push_back({*listener, host});
    if (pin == nullptr) refuse_pin_of(routes.back(), servers.pins, listen.section("members"));
  }
  return routes;
}

/// All addresses that listeners may have, as far as the configuration tells.
std::vector<net::Endpoint> own_places(const Servers& servers) {
  std::vector<net::Endpoint> places;
  places.reserve(2 * (servers.routes.size() + servers.pins.size()));
  for (const net::Route& route : servers.routes) places.push_back(route.listen);
  for (const Pin& pin : servers.pins) places.push_back(pinned_to(pin, servers.first));
  if (servers.advertise.empty()) return places;
  const std::size_t listeners = places.size();
  for (std::size_t i = 0; i < listeners; ++i) {
    places.push_back(places[i]);
    places.back().host = servers.advertise;
  }
  return places;
}

}  // namespace

std::vector<Pin> read_pins(Parameters& members) {
  std::vector<Pin> pins;
  for (const std::string& key : members.keys()) {
    const std::int64_t port = members.integer(key, 1, net::kMaxPort, 0);
    const auto server = parse_server(key);
    if (!server) members.error(key, "must name a server as host:port, IPv6 as [::1]:27017");
    if (!server || port == 0) continue;
    const Pin pin{key, *server, static_cast<std::uint16_t>(port)};
    const std::string fault = conflict(pin, pins);
    if (!fault.empty()) members.error(key, fault);
    pins.push_back(pin);
  }
  return pins;
}

const Pin* pin_of(const net::Endpoint& server, const std::vector<Pin>& pins) {
  const auto found = std::ranges::find_if(pins, [&](const Pin& pin) {
    return pin.server.port == server.port && same_name_or_address(pin.server.host, server.host);
  });
  return found == pins.end() ? nullptr : &*found;
}

Servers read_servers(Parameters& listen, Parameters& upstream, const std::string& seed_list,
                     std::chrono::sys_seconds now) {
  Servers servers;
  servers.first = read_address(listen);
  const std::int64_t port = listen.integer("port", 0, net::kMaxPort, kDefaultPort);
  if (servers.first.unix_path.empty()) servers.first.port = static_cast<std::uint16_t>(port);
  servers.advertise = read_advertise(listen);
  servers.pins = read_pins(listen.section("members"));
  const auto uri = read_uri(upstream, seed_list, now, servers);
  if (!uri) return servers;
  check_address(servers, listen);
  drop_what_has_no_effect(uri->hosts, servers, listen);
  servers.routes = pair_up(servers, uri->hosts, listen);
  servers.own = own_places(servers);
  refuse_own_listeners(servers.own, uri->hosts, "uri", upstream);
  return servers;
}

void refuse_pins_at(const net::Endpoint& place, std::string_view key, const Servers& servers,
                    Parameters& members) {
  for (const Pin& pin : servers.pins) {
    if (!compete(pinned_to(pin, servers.first), place)) continue;
    members.error(pin.key, "port " + std::to_string(pin.port) + " is that of " + std::string(key));
  }
}

void refuse_listeners_at(const net::Endpoint& place, const Servers& servers, Parameters& admin,
                         Parameters& listen) {
  for (const net::Route& route : servers.routes) {
    const bool pinned = pin_of(route.upstream, servers.pins) != nullptr;  // see refuse_pins_at()
    if (pinned || !compete(route.listen, place)) continue;
    const std::string port = "port " + std::to_string(place.port);
    if (admin.given("listen")) {
      admin.error("listen", port + " is that of the listener for " + route.upstream.text());
    } else {
      listen.error("port", port + ", for " + route.upstream.text() + ", is that of admin.listen");
    }
  }
}

bool refuse_own_listeners(const std::vector<net::Endpoint>& own,
                          const std::vector<net::Endpoint>& hosts, std::string_view key,
                          Parameters& reader) {
  bool refused = false;
  for (const net::Endpoint& host : hosts) {
    const auto is_host = [&](const net::Endpoint& place) { return same_place(place, host); };
    if (std::ranges::none_of(own, is_host)) continue;
    reader.error(key,
                 "must not name this proxy itself: " + host.text() + " is one of its listeners");
    refused = true;
  }
  return refused;
}

bool is_host(const std::string& text) {
  const bool has_port = text.find(':') != std::string::npos && address_bytes(text).empty();
  return !text.empty() && !has_port && text.find_first_of(" \t\r\n/@,[]*?") == std::string::npos;
}

std::optional<net::Endpoint> parse_address_and_port(const std::string& text) {
  auto endpoint = split_port(text);
  if (endpoint && address_bytes(endpoint->host).empty()) return std::nullopt;
  return endpoint;
}

}  // namespace idproxy::config
