#pragma once

#include <chrono>
#include <cstdint>
#include <map>
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
  /// One per host of the connection string, in its order, not empty. Further members of their
  /// replica sets get listeners at the same address.
  std::vector<Route> routes;
  /// False: nothing in replies to hello is changed, and no listener is added
  /// (directConnection=true).
  bool map_members = true;
  /// Host name or IP address that clients are told instead of the address that is listened on.
  std::string advertise;
  /// Server ("host:port", lower case) -> the port of its listener. Routes are pinned already.
  std::map<std::string, std::uint16_t, std::less<>> pins;
  /// Of the first member that is added, if it is not pinned; 0: any free port for each.
  std::uint16_t next_port = 0;
  std::string replica_set;                ///< that the connection string names; empty: none
  std::uint32_t max_connections = 10000;  ///< of clients, over all listeners
  std::chrono::milliseconds connect_timeout{5000};
  std::uint32_t threads = 1;
  std::string version;  ///< of the program, for its status
};

}  // namespace idproxy::net
