#include "config/endpoints.hpp"

#include <arpa/inet.h>
#include <sys/un.h>

#include <algorithm>
#include <array>

#include "config/connection_string.hpp"
#include "config/scalars.hpp"
#include "config/words.hpp"

namespace idproxy::config {
namespace {

constexpr std::string_view kDefaultAddress = "127.0.0.1";
constexpr std::string_view kDefaultUri = "mongodb://127.0.0.1:27017";
constexpr std::uint16_t kDefaultPort = 27117;
constexpr std::int64_t kMaxPort = 65535;
constexpr std::string_view kUnixPrefix = "unix:";

/// The bytes of an IP address, 4 or 16; empty for a name. Different spellings of one address agree.
std::string address_bytes(const std::string& host) {
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return {bytes.data(), sizeof(in_addr)};
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return {bytes.data(), bytes.size()};
  return {};
}

bool is_loopback(const std::string& host) {
  static const std::string v4 = address_bytes("127.0.0.1");
  static const std::string v6 = address_bytes("::1");
  const std::string bytes = address_bytes(host);
  return host == "localhost" || bytes == v4 || bytes == v6;
}

bool is_any(const std::string& host) {
  const std::string bytes = address_bytes(host);
  return !bytes.empty() && bytes.find_first_not_of('\0') == std::string::npos;
}

bool same_host(const std::string& listen, const std::string& other) {
  const bool own = is_loopback(other) || is_any(other);
  if (own && (is_loopback(listen) || is_any(listen))) return true;
  const std::string bytes = address_bytes(listen);
  return !bytes.empty() && bytes == address_bytes(other);
}

bool same_place(const net::Endpoint& listen, const net::Endpoint& other) {
  if (!listen.unix_path.empty() || !other.unix_path.empty()) {
    return listen.unix_path == other.unix_path;
  }
  return listen.port != 0 && listen.port == other.port && same_host(listen.host, other.host);
}

net::Endpoint unix_endpoint(const std::string& path, Reader& listen) {
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

net::Endpoint read_address(Reader& listen) {
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

/// What this release cannot do must not look as if it were done.
void check_supported(const ConnectionString& uri, Reader& upstream) {
  if (uri.srv) {
    upstream.error("uri",
                   "mongodb+srv is not in this release: name the hosts in a mongodb:// string");
  } else if (uri.tls) {
    upstream.error("uri", "TLS towards the server is not in this release");
  }
}

/// The hosts.
std::vector<net::Endpoint> read_uri(Reader& upstream, Servers& servers) {
  servers.uri = upstream.text("uri", kDefaultUri);
  const auto uri = parse_connection_string(servers.uri, "uri", upstream);
  if (!uri) return {};
  check_supported(*uri, upstream);
  servers.has_user = uri->has_user;
  return uri->hosts;
}

/// The listener of the server at `position`; nothing if its port would be too high.
std::optional<net::Endpoint> listener_of(std::size_t position, const net::Endpoint& first) {
  net::Endpoint listener = first;
  if (first.port == 0) return listener;
  const std::int64_t port = first.port + static_cast<std::int64_t>(position);
  if (port > kMaxPort) return std::nullopt;
  listener.port = static_cast<std::uint16_t>(port);
  return listener;
}

std::vector<net::Route> pair_up(const net::Endpoint& first, std::vector<net::Endpoint> servers,
                                Reader& listen) {
  if (!first.unix_path.empty() && servers.size() > 1) {
    listen.warning("address", "a Unix socket serves the first server of upstream.uri only, " +
                                  servers.front().text());
    servers.resize(1);
  }
  std::vector<net::Route> routes;
  for (const net::Endpoint& server : servers) {
    const auto listener = listener_of(routes.size(), first);
    if (!listener) {
      listen.error("port", "must leave a port up to 65535 for each of the " +
                               std::to_string(servers.size()) + " servers of upstream.uri, is " +
                               std::to_string(first.port));
      break;
    }
    routes.push_back({*listener, server});
  }
  return routes;
}

}  // namespace

Servers read_servers(Reader& listen, Reader& upstream) {
  Servers servers;
  net::Endpoint first = read_address(listen);
  const std::int64_t port = listen.integer("port", 0, kMaxPort, kDefaultPort);
  if (first.unix_path.empty()) first.port = static_cast<std::uint16_t>(port);
  const auto hosts = read_uri(upstream, servers);
  servers.routes = pair_up(first, hosts, listen);
  refuse_own_listeners(servers.routes, hosts, "uri", upstream);
  return servers;
}

bool refuse_own_listeners(const std::vector<net::Route>& routes,
                          const std::vector<net::Endpoint>& hosts, std::string_view key,
                          Reader& reader) {
  bool refused = false;
  for (const net::Endpoint& host : hosts) {
    const auto is_listener = [&](const net::Route& route) {
      return same_place(route.listen, host);
    };
    if (!std::any_of(routes.begin(), routes.end(), is_listener)) continue;
    reader.error(key, "would connect to itself: " + host.text() + " is a listener of this proxy");
    refused = true;
  }
  return refused;
}

std::optional<net::Endpoint> parse_address_and_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::string bytes = address_bytes(host);
  if (bytes.empty() || bracketed != (bytes.size() == sizeof(in6_addr))) return std::nullopt;
  const auto port = read_integer(std::string_view(text).substr(colon + 1));
  const bool fits = port.reading == Reading::ok && port.value >= 0 && port.value <= kMaxPort;
  if (!fits) return std::nullopt;
  net::Endpoint endpoint;
  endpoint.host = host;
  endpoint.port = static_cast<std::uint16_t>(port.value);
  return endpoint;
}

}  // namespace idproxy::config
