#include "net/tcp.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>

#include "idproxy/net/options.hpp"

namespace idproxy::net {
namespace {

Protocol::endpoint endpoint_from(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  Protocol::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (ask(fd, endpoint.data(), &size) != 0) return {};
  endpoint.resize(size);
  return endpoint;
}

}  // namespace

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

asio::ip::tcp::endpoint tcp_endpoint(const Protocol::endpoint& endpoint) {
  asio::ip::tcp::endpoint copy;
  copy.resize(endpoint.size());
  std::memcpy(copy.data(), endpoint.data(), endpoint.size());
  return copy;
}

Protocol::endpoint local_endpoint(int fd) {
  return endpoint_from(::getsockname, fd);
}

std::string peer_name(int fd) {
  const Protocol::endpoint peer = endpoint_from(::getpeername, fd);
  const int family = peer.protocol().family();
  if (family != AF_INET && family != AF_INET6) return {};
  const asio::ip::tcp::endpoint from = tcp_endpoint(peer);
  return Endpoint{from.address().to_string(), from.port(), {}}.text();
}

}  // namespace idproxy::net
