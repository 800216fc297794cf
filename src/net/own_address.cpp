#include "own_address.hpp"

#include <boost/asio/ip/udp.hpp>

namespace idproxy::net {
namespace {

/// An address that no host has: one reserved for documentation (RFC 5737, RFC 3849).
asio::ip::address of_nobody(const asio::ip::address& like) {
  return asio::ip::make_address(like.is_v4() ? "192.0.2.1" : "2001:db8::1");
}

/// Whether the kernel lets a datagram socket bind to the address. Sets `error` if no socket can be
/// opened.
bool can_be_bound(const asio::ip::address& address, asio::io_context& io, error_code& error) {
  const asio::ip::udp::endpoint endpoint(address, 0);
  asio::ip::udp::socket socket(io);
  socket.open(endpoint.protocol(), error);
  if (error) return false;
  error_code refused;
  socket.bind(endpoint, refused);
  return !refused;
}

}  // namespace

bool is_of_this_host(const asio::ip::address& address, asio::io_context& io, error_code& error) {
  if (address.is_loopback() || address.is_unspecified()) return true;
  // A connection to an address of this host has that address as its source …
  asio::ip::udp::socket socket(io);
  const asio::ip::udp::endpoint endpoint(address, 9);
  socket.open(endpoint.protocol(), error);
  if (error == boost::system::errc::address_family_not_supported) error.clear();
  if (error || !socket.is_open()) return false;
  error_code unreachable;
  socket.connect(endpoint, unreachable);
  if (unreachable) return false;
  if (socket.local_endpoint(unreachable).address() == address) return true;
  // … or the first one of its network. In that case it can still be bound to; but with
  // net.ipv4.ip_nonlocal_bind, so can every address.
  return can_be_bound(address, io, error) && !can_be_bound(of_nobody(address), io, error) && !error;
}

}  // namespace idproxy::net
