#include "net/sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <cstring>

#include "net/file_descriptor.hpp"

namespace idproxy::net {
namespace {

using boost::asio::ip::address;

SocketAddress asked(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  SocketAddress answer;
  auto size = static_cast<socklen_t>(answer.capacity());
  if (ask(fd, answer.data(), &size) != 0) return {};
  answer.resize(size);
  return answer;
}

/// An address that no host has: one reserved for documentation (RFC 5737, RFC 3849).
address of_nobody(const address& like) {
  return boost::asio::ip::make_address(like.is_v4() ? "192.0.2.1" : "2001:db8::1");
}

FileDescriptor open_for(const tcp::endpoint& like, error_code& error) {
  FileDescriptor socket(::socket(like.protocol().family(), SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP));
  if (!socket.is_open()) error.assign(errno, boost::system::system_category());
  return socket;
}

/// Whether the kernel lets a datagram socket bind to the address. Sets `error` if no socket can be
/// opened.
bool can_be_bound(const address& to, error_code& error) {
  const tcp::endpoint endpoint(to, 0);
  const FileDescriptor socket = open_for(endpoint, error);
  return socket.is_open() &&
         ::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
}

bool is_tcp(const SocketAddress& address) {
  const int family = address.protocol().family();
  return family == AF_INET || family == AF_INET6;
}

Endpoint tcp_name(const SocketAddress& address) {
  const tcp::endpoint endpoint = tcp_endpoint(address);
  return {endpoint.address().to_string(), endpoint.port(), {}};
}

void append_big_u16(std::string& to, std::uint16_t number) {
  to += static_cast<char>(number >> 8);
  to += static_cast<char>(number & 0xff);
}

template <class Bytes>
void append_address(std::string& to, const Bytes& bytes) {
  for (const unsigned char byte : bytes) to += static_cast<char>(byte);
}

}  // namespace

std::optional<SocketAddress> address_of(const Endpoint& endpoint) {
  if (!endpoint.unix_path.empty()) {
    return boost::asio::local::stream_protocol::endpoint(endpoint.unix_path);
  }
  error_code no_address;
  const address host = boost::asio::ip::make_address(endpoint.host, no_address);
  if (no_address) return std::nullopt;
  return tcp::endpoint(host, endpoint.port);
}

tcp::endpoint tcp_endpoint(const SocketAddress& address) {
  tcp::endpoint copy;
  copy.resize(address.size());
  std::memcpy(copy.data(), address.data(), address.size());
  return copy;
}

address plain(const address& of) {
  const bool is_mapped = of.is_v6() && of.to_v6().is_v4_mapped();
  return is_mapped ? make_address_v4(boost::asio::ip::v4_mapped, of.to_v6()) : of;
}

std::uint16_t own_port(int fd) {
  const SocketAddress own = asked(::getsockname, fd);
  return is_tcp(own) ? tcp_endpoint(own).port() : std::uint16_t{0};
}

Endpoint own_endpoint(int fd) {
  const SocketAddress own = asked(::getsockname, fd);
  if (is_tcp(own)) return tcp_name(own);
  if (own.protocol().family() != AF_UNIX) return {};
  boost::asio::local::stream_protocol::endpoint local;
  local.resize(own.size());
  std::memcpy(local.data(), own.data(), own.size());
  return {{}, 0, local.path()};
}

std::string peer_name(int fd) {
  const SocketAddress peer = asked(::getpeername, fd);
  return is_tcp(peer) ? tcp_name(peer).text() : std::string();
}

std::optional<std::string> proxy_header(int client) {
  constexpr std::string_view kSignature("\r\n\r\n\0\r\nQUIT\n", 12);
  constexpr char kLocal = 0x20;  // version 2, and the command
  constexpr char kProxy = 0x21;
  constexpr char kTcp4 = 0x11;
  constexpr char kTcp6 = 0x21;
  std::string header(kSignature);
  const SocketAddress own = client < 0 ? SocketAddress() : asked(::getsockname, client);
  if (client < 0 || own.protocol().family() == AF_UNIX) {
    header += kLocal;
    header += '\0';
    append_big_u16(header, 0);
    return header;
  }
  const SocketAddress peer = asked(::getpeername, client);
  if (!is_tcp(own) || !is_tcp(peer)) return std::nullopt;
  const tcp::endpoint from = tcp_endpoint(peer);
  const tcp::endpoint to = tcp_endpoint(own);
  const address source = plain(from.address());
  const address target = plain(to.address());
  header += kProxy;
  if (source.is_v4() && target.is_v4()) {
    header += kTcp4;
    append_big_u16(header, 2 * 4 + 2 * 2);
    append_address(header, source.to_v4().to_bytes());
    append_address(header, target.to_v4().to_bytes());
  } else {
    header += kTcp6;
    append_big_u16(header, 2 * 16 + 2 * 2);
    append_address(header, from.address().to_v6().to_bytes());
    append_address(header, to.address().to_v6().to_bytes());
  }
  append_big_u16(header, from.port());
  append_big_u16(header, to.port());
  return header;
}

bool is_of_this_host(const address& asked_of, error_code& error) {
  if (asked_of.is_loopback() || asked_of.is_unspecified()) return true;
  // A connection to an address of this host has that address as its source …
  const tcp::endpoint endpoint(asked_of, 9);
  const FileDescriptor socket = open_for(endpoint, error);
  if (error == boost::system::errc::address_family_not_supported) error.clear();
  if (!socket.is_open()) return false;
  const auto size = static_cast<socklen_t>(endpoint.size());
  if (::connect(socket.get(), endpoint.data(), size) != 0) return false;
  const SocketAddress source = asked(::getsockname, socket.get());
  if (source.size() > 0 && tcp_endpoint(source).address() == asked_of) return true;
  // … or the first one of its network. In that case it can still be bound to; but with
  // net.ipv4.ip_nonlocal_bind, so can every address.
  return can_be_bound(asked_of, error) && !can_be_bound(of_nobody(asked_of), error) && !error;
}

void set_tcp_options(int fd) {
  const auto set = [fd](int level, int name, int value) {
    // Fails on a Unix socket, where it has no meaning.
    static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

}  // namespace idproxy::net
