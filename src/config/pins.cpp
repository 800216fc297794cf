#include "config/pins.hpp"

#include <algorithm>
#include <optional>

#include "config/addresses.hpp"
#include "config/scalars.hpp"
#include "idproxy/base/text.hpp"

namespace idproxy::config {
namespace {

/// Parses "db2.internal:27017" or "[::1]:27017", as replica sets name their members.
std::optional<net::Endpoint> parse_server(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const auto port = read_integer(std::string_view(text).substr(colon + 1));
  if (port.reading != Reading::ok || port.value < 1 || port.value > net::kMaxPort)
    return std::nullopt;
  net::Endpoint server;
  server.host = ascii_lower(text.substr(0, colon));
  server.port = static_cast<std::uint16_t>(port.value);
  if (server.host.find_first_of(" \t\r\n/@,") != std::string::npos) return std::nullopt;
  const bool bracketed = server.host.starts_with('[') && server.host.ends_with(']');
  if (bracketed) server.host = server.host.substr(1, server.host.size() - 2);
  const bool is_v6 = server.host.find(':') != std::string::npos;
  if (bracketed != is_v6 || (is_v6 && address_bytes(server.host).empty())) return std::nullopt;
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

}  // namespace

std::vector<Pin> read_pins(Reader& members) {
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

}  // namespace idproxy::config
