#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace idproxy::net {

/// Where something listens or is reached: an IP address or host name with its port, or, when
/// `unix_path` is not empty, a Unix domain socket.
struct Endpoint {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
  std::string unix_path;
  /// "host:port", "[v6]:port" or "unix:/path", as logs and messages show it.
  [[nodiscard]] std::string text() const;
};

/// One listener and the one server that it stands for.
struct Route {
  Endpoint listen;  ///< port 0: any free port
  Endpoint upstream;
};

struct Options {
  std::vector<Route> routes;
  std::uint32_t max_connections = 10000;  ///< of clients, over all listeners
  std::chrono::milliseconds connect_timeout{5000};
  std::uint32_t threads = 1;
};

}  // namespace idproxy::net
