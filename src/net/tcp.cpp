#include "tcp.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstring>

#include "idproxy/net/options.hpp"

namespace idproxy::net {

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

std::string peer_name(const Socket& socket) {
  error_code error;
  const Protocol::endpoint peer = socket.remote_endpoint(error);
  asio::ip::tcp::endpoint tcp;
  if (error || peer.protocol().family() == AF_UNIX || peer.size() > tcp.capacity()) return {};
  tcp.resize(peer.size());
  std::memcpy(tcp.data(), peer.data(), peer.size());
  return Endpoint{tcp.address().to_string(), tcp.port(), {}}.text();
}

}  // namespace idproxy::net
