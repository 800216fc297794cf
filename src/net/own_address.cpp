#include "net/own_address.hpp"

#include <sys/socket.h>

#include <boost/asio/ip/udp.hpp>
#include <cerrno>

#include "net/file_descriptor.hpp"

namespace idproxy::net {
namespace {

using asio::ip::udp;

/// An address that no host has: one reserved for documentation (RFC 5737, RFC 3849).
asio::ip::address of_nobody(const asio::ip::address& like) {
  return asio::ip::make_address(like.is_v4() ? "192.0.2.1" : "2001:db8::1");
}

socklen_t size_of(const udp::endpoint& endpoint) {
  return static_cast<socklen_t>(endpoint.size());
}

FileDescriptor open_for(const udp::endpoint& endpoint, error_code& error) {
  FileDescriptor socket(
      ::socket(endpoint.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!socket.is_open()) error.assign(errno, boost::system::system_category());
  return socket;
}

/// Whether the kernel lets a datagram socket bind to the address. Sets `error` if no socket can be
/// opened.
bool can_be_bound(const asio::ip::address& address, error_code& error) {
  const udp::endpoint endpoint(address, 0);
  const FileDescriptor socket = open_for(endpoint, error);
  return socket.is_open() && ::bind(socket.get(), endpoint.data(), size_of(endpoint)) == 0;
}

}  // namespace

bool is_of_this_host(const asio::ip::address& address, error_code& error) {
  if (address.is_loopback() || address.is_unspecified()) return true;
  // A connection to an address of this host has that address as its source …
  const udp::endpoint endpoint(address, 9);
  const FileDescriptor socket = open_for(endpoint, error);
  if (error == boost::system::errc::address_family_not_supported) error.clear();
  if (!socket.is_open()) return false;
  if (::connect(socket.get(), endpoint.data(), size_of(endpoint)) != 0) return false;
  udp::endpoint source;
  auto size = static_cast<socklen_t>(source.capacity());
  if (::getsockname(socket.get(), source.data(), &size) == 0) {
    source.resize(size);
    if (source.address() == address) return true;
  }
  // … or the first one of its network. In that case it can still be bound to; but with
  // net.ipv4.ip_nonlocal_bind, so can every address.
  return can_be_bound(address, error) && !can_be_bound(of_nobody(address), error) && !error;
}

}  // namespace idproxy::net
