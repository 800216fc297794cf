#pragma once

#include <boost/asio/ip/address.hpp>

#include "asio.hpp"

namespace idproxy::net {

/// True if what is sent to this address comes back to this host. The kernel is asked by means of
/// datagram sockets, on which nothing is sent: the list of all addresses would take a netlink
/// socket, which the systemd unit forbids. `error`: it cannot be asked now, for want of
/// descriptors. Where net.ipv4.ip_nonlocal_bind is set, an address that is not the first one of its
/// network is not recognised.
[[nodiscard]] bool is_of_this_host(const asio::ip::address& address, asio::io_context& io,
                                   error_code& error);

}  // namespace idproxy::net
