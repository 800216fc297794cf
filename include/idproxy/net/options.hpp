#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/net/tls.hpp"

namespace idproxy::net {

inline constexpr std::uint16_t kMaxPort = 65535;

/// Where something listens or is reached: an IP address or host name with its port, or, when
/// `unix_path` is not empty, a Unix domain socket.
struct Endpoint {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
  std::string unix_path;
  /// "host:port", "[v6]:port" or "unix:/path", as logs and messages show it.
  [[nodiscard]] std::string text() const;
  /// The same for all spellings of one server: lower case, IP addresses as RFC 5952 has them.
  [[nodiscard]] std::string key() const;
};

/// One listener and the one server that it stands for.
struct Route {
  Endpoint listen;  ///< port 0: any free port
  Endpoint upstream;
};

/// What peers can make us hold or wait for.
struct Limits {
  std::uint64_t buffered_messages = std::uint64_t{256} << 20;  ///< bytes of messages held whole
  std::chrono::milliseconds first_byte{10'000};     ///< from the connection, or its TLS handshake
  std::chrono::milliseconds tls_handshake{10'000};  ///< of a client; a server has connect_timeout
  std::chrono::milliseconds message{30'000};        ///< from a message's first byte to its last
  std::chrono::milliseconds drain{25'000};          ///< until what is left is cut off
  bool operator==(const Limits&) const = default;
};

/// Endpoint::key() of a server -> the port of its listener.
using Pins = std::map<std::string, std::uint16_t, std::less<>>;

struct Options {
  /// One per host of the connection string, in its order, not empty. Further members of their
  /// replica sets get listeners at the same address.
  std::vector<Route> routes;
  /// False: nothing in replies to hello is changed, and no listener is added
  /// (directConnection=true).
  bool map_members = true;
  /// Host name or IP address that clients are told instead of the address that is listened on.
  std::string advertise;
  Pins pins;  ///< routes are pinned already
  /// Of the first member that is added, if it is not pinned; 0: any free port for each.
  std::uint16_t next_port = 0;
  std::string replica_set;                ///< that the connection string names; empty: none
  std::uint32_t max_connections = 10000;  ///< of clients, over all listeners
  std::chrono::milliseconds connect_timeout{5000};
  std::shared_ptr<const tls::Context> client_tls;  ///< towards clients; null: plain
  std::shared_ptr<const tls::Context> server_tls;  ///< towards servers; null: plain
  Limits limits;
  std::uint32_t threads = 1;
  std::string version;  ///< of the program, for its status
};

}  // namespace idproxy::net
