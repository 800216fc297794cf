#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/net/tls.hpp"
#include "idproxy/rewrite/context.hpp"
#include "idproxy/wire/compression.hpp"

namespace idproxy::net {

inline constexpr std::uint16_t kMaxPort = 65535;

/// An address to listen at or to connect to: an IP address or host name with its port, or, if
/// `unix_path` is not empty, a Unix domain socket.
struct Endpoint {
  std::string host;  ///< without brackets
  std::uint16_t port = 0;
  std::string unix_path;
  /// "host:port", "[v6]:port" or "unix:/path", as logs and messages show it.
  [[nodiscard]] std::string text() const;
  /// text() in a canonical spelling, to compare servers by: lower case, IPv6 addresses in the form
  /// of RFC 5952.
  [[nodiscard]] std::string key() const;
};

/// A listener and the server that its clients are connected to.
struct Route {
  Endpoint listen;  ///< port 0: any free port
  Endpoint upstream;
  int socket = -1;  ///< one of Options::sockets, to listen with; -1: one of the listener's own
};

/// A listening socket that the process was started with (sd_listen_fds(3)), and must close.
struct PassedSocket {
  int fd;
  std::string name;  ///< FileDescriptorName= of the unit; "unknown" if it has none
};

/// Bounds on the memory and time that peers can take up.
struct Limits {
  std::uint64_t buffered_messages = std::uint64_t{256} << 20;  ///< bytes of messages held whole
  std::chrono::milliseconds first_byte{10'000};     ///< after connecting, or the TLS handshake
  std::chrono::milliseconds tls_handshake{10'000};  ///< with clients; servers: connect_timeout
  std::chrono::milliseconds message{30'000};        ///< from a message's first byte to its last
  std::chrono::milliseconds drain{25'000};          ///< then remaining connections are closed
  bool operator==(const Limits&) const = default;
};

/// Endpoint::key() of a server -> the port of its listener.
using Pins = std::map<std::string, std::uint16_t, std::less<>>;

struct Options {
  /// One route for each host of the connection string, in its order; not empty. Further members of
  /// the hosts' replica sets get listeners at the same address.
  std::vector<Route> routes;
  /// False (directConnection=true): replies to hello pass unchanged, and no listener is added.
  bool map_members = true;
  /// Each has the address of a listener of `routes`, which the server then need not open.
  std::vector<PassedSocket> sockets;
  /// Host name or IP address to tell clients instead of the listeners' address; empty: none.
  std::string advertise;
  Pins pins;  ///< for added members; `routes` already follow them
  /// First port to try for an added member that is not pinned; 0: any free port for each.
  std::uint16_t next_port = 0;
  std::string replica_set;                ///< named by the connection string; empty: none
  std::uint32_t max_connections = 10000;  ///< client connections, over all listeners
  /// Those that clients and servers may agree on.
  wire::Compressors compressors = wire::Compressors::all();
  std::chrono::milliseconds connect_timeout{5000};
  bool proxy_protocol = false;  ///< connections to servers begin with a header, version 2
  std::shared_ptr<const tls::Context> client_tls;  ///< towards clients; null: plain
  std::shared_ptr<const tls::Context> server_tls;  ///< towards servers; null: plain
  Limits limits;
  std::uint32_t threads = 1;
  /// Has the answer to {idproxy: "status"} made for a client of this listener, without waiting for
  /// it (rewrite::Context::status). Thread-safe. Empty: clients get the server's reply.
  std::function<rewrite::StatusDocument(std::string listener)> status;
};

}  // namespace idproxy::net
