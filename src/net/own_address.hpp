#pragma once

#include <boost/asio/ip/address.hpp>

#include "net/asio.hpp"

namespace idproxy::net {

/// True if this address belongs to this host. Asks the kernel by means of datagram sockets, on
/// which it sends nothing: listing all addresses would need a netlink socket, which the systemd
/// unit forbids. Sets `error` if it cannot ask, for lack of descriptors. If
/// net.ipv4.ip_nonlocal_bind is set, it does not recognise an address that is not the first one of
/// its network.
[[nodiscard]] bool is_of_this_host(const asio::ip::address& address, error_code& error);

}  // namespace idproxy::net
