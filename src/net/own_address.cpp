#include "own_address.hpp"

#include <boost/asio/ip/udp.hpp>

namespace idproxy::net {
namespace {

/// One that nobody has, of the documentation (RFC 5737, RFC 3849).
asio::ip::address of_nobody(const asio::ip::address& like) {
  return asio::ip::make_address(like.is_v4() ? "192.0.2.1" : "2001:db8::1");
}

/// Nothing is sent: the datagram socket only says what the kernel thinks of the address. `error`:
/// there is none to be had.
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
  // Connections to an address of our own come from that address …
  asio::ip::udp::socket socket(io);
  const asio::ip::udp::endpoint endpoint(address, 9);
  socket.open(endpoint.protocol(), error);
  if (error == boost::system::errc::address_family_not_supported) error.clear();
  if (error || !socket.is_open()) return false;
  error_code unreachable;
  socket.connect(endpoint, unreachable);
  if (unreachable) return false;
  if (socket.local_endpoint(unreachable).address() == address) return true;
  // … or from the first one of its network; but it can be bound to. So can all addresses where
  // net.ipv4.ip_nonlocal_bind says so.
  return can_be_bound(address, io, error) && !can_be_bound(of_nobody(address), io, error) && !error;
}

}  // namespace idproxy::net
