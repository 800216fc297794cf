#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <optional>
#include <string>

#include "idproxy/net/options.hpp"

namespace idproxy::net {

using boost::asio::ip::tcp;
using boost::system::error_code;

/// The address of a TCP or Unix socket, as system calls have it.
using SocketAddress = boost::asio::generic::stream_protocol::endpoint;

/// Nothing if the host is not an IP address. Throws boost::system::system_error if the path of a
/// Unix socket is too long.
[[nodiscard]] std::optional<SocketAddress> address_of(const Endpoint& endpoint);
/// Converts `address`, which must not be that of a Unix socket.
[[nodiscard]] tcp::endpoint tcp_endpoint(const SocketAddress& address);
/// An IPv4 address in the form that a listener at :: sees ("::ffff:10.0.0.7") as what it is; others
/// as they are.
[[nodiscard]] boost::asio::ip::address plain(const boost::asio::ip::address& of);
/// The port that a socket is bound to; 0 for Unix sockets and lost connections.
[[nodiscard]] std::uint16_t own_port(int fd);
/// The address that a TCP or Unix socket is bound to; all empty for others.
[[nodiscard]] Endpoint own_endpoint(int fd);
/// The peer's address for logs, "10.0.0.7:50122"; "" for Unix sockets and lost connections.
[[nodiscard]] std::string peer_name(int fd);

/// The header of the PROXY protocol, version 2, that tells a server who the client at the socket
/// `client` is and which of our addresses it connected to
/// (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, 2.2). Over a Unix socket, and with
/// -1, for connections of the proxy's own, it is the command LOCAL, without addresses. Nothing if
/// the client is lost: its requests must not seem to be the proxy's.
[[nodiscard]] std::optional<std::string> proxy_header(int client);

/// True if this address belongs to this host. Asks the kernel by means of datagram sockets, on
/// which it sends nothing: listing all addresses would need a netlink socket, which the systemd
/// unit forbids. Sets `error` if it cannot ask, for lack of descriptors. If
/// net.ipv4.ip_nonlocal_bind is set, it does not recognise an address that is not the first one of
/// its network.
[[nodiscard]] bool is_of_this_host(const boost::asio::ip::address& address, error_code& error);

/// Sets TCP_NODELAY, and keepalive (after 30 s idle, 3 probes every 10 s) and TCP_USER_TIMEOUT (30
/// s) to notice peers that vanish. No effect on Unix sockets.
void set_tcp_options(int fd);

}  // namespace idproxy::net
