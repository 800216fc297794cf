#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <string>

#include "asio.hpp"

namespace idproxy::net {

/// No delay, keepalive after 30 s idle (every 10 s, 3 times), 30 s for sent bytes to be
/// acknowledged: a peer that is gone without a word is noticed. No effect on Unix sockets.
void set_tcp_options(int fd);

/// The same. `endpoint` is not that of a Unix socket.
[[nodiscard]] asio::ip::tcp::endpoint tcp_endpoint(const Protocol::endpoint& endpoint);

/// Who is at the other end, for logs: "10.0.0.7:50122"; "" where that has no name.
[[nodiscard]] std::string peer_name(const Socket& socket);

}  // namespace idproxy::net
