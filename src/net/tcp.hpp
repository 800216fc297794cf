#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "net/asio.hpp"

namespace idproxy::net {

/// Sets TCP_NODELAY, and keepalive (after 30 s idle, 3 probes every 10 s) and TCP_USER_TIMEOUT (30
/// s) to notice peers that vanish. No effect on Unix sockets.
void set_tcp_options(int fd);

/// Converts `endpoint`, which must not be that of a Unix socket.
[[nodiscard]] asio::ip::tcp::endpoint tcp_endpoint(const Protocol::endpoint& endpoint);

/// The peer's address for logs, "10.0.0.7:50122"; "" for Unix sockets and lost connections.
[[nodiscard]] std::string peer_name(int fd);

/// The address that a socket is bound to; empty if the kernel does not tell.
[[nodiscard]] Protocol::endpoint local_endpoint(int fd);

}  // namespace idproxy::net
