#include "sockets.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <system_error>

namespace idproxy::bench {
namespace {

/// A thousand connections are opened at once.
constexpr int kBacklog = 4096;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

const sockaddr* as_sockaddr(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

void set_option(const Fd& fd, int level, int option) {
  const int on = 1;
  if (::setsockopt(fd.get(), level, option, &on, sizeof on) < 0) throw_errno("setsockopt");
}

std::uint16_t port_of(const Fd& fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) < 0) {
    throw_errno("getsockname");
  }
  return ntohs(address.sin_port);
}

std::ptrdiff_t zero_if_would_block(std::ptrdiff_t result) {
  return result < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : result;
}

void control(const Fd& epoll, int operation, const Fd& fd, std::uint32_t events,
             std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (::epoll_ctl(epoll.get(), operation, fd.get(), &event) < 0) throw_errno("epoll_ctl");
}

}  // namespace

void throw_errno(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

Listener listen_on_loopback(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) throw_errno("socket");
  set_option(fd, SOL_SOCKET, SO_REUSEADDR);
  const sockaddr_in address = loopback(port);
  if (::bind(fd.get(), as_sockaddr(address), sizeof address) < 0) throw_errno("bind");
  if (::listen(fd.get(), kBacklog) < 0) throw_errno("listen");
  const std::uint16_t bound = port_of(fd);
  return {std::move(fd), bound};
}

std::uint16_t free_port() {
  return listen_on_loopback().port;
}

Fd connect_to_loopback(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) throw_errno("socket");
  set_option(fd, IPPROTO_TCP, TCP_NODELAY);
  const sockaddr_in address = loopback(port);
  if (::connect(fd.get(), as_sockaddr(address), sizeof address) < 0) throw_errno("connect");
  return fd;
}

std::string unix_socket_of(std::uint16_t port) {
  return "/tmp/idproxy-bench-" + std::to_string(port) + ".sock";
}

Fd connect_to_unix_socket(std::uint16_t port) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) throw_errno("socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  unix_socket_of(port).copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    throw_errno("connect");
  }
  return fd;
}

Fd accept_from(const Fd& listener) {
  Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.get() >= 0) set_option(fd, IPPROTO_TCP, TCP_NODELAY);
  return fd;
}

void set_nonblocking(const Fd& fd) {
  if (::fcntl(fd.get(), F_SETFL, O_NONBLOCK) < 0) throw_errno("fcntl");
}

std::ptrdiff_t receive_some(const Fd& fd, char* buffer, std::size_t size) {
  const std::ptrdiff_t received = ::recv(fd.get(), buffer, size, 0);
  return received == 0 ? -1 : zero_if_would_block(received);
}

std::ptrdiff_t send_some(const Fd& fd, std::string_view bytes) {
  return zero_if_would_block(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

void watch(const Fd& epoll, const Fd& fd, std::uint32_t events, std::uint64_t tag) {
  control(epoll, EPOLL_CTL_ADD, fd, events, tag);
}

void change_watch(const Fd& epoll, const Fd& fd, std::uint32_t events, std::uint64_t tag) {
  control(epoll, EPOLL_CTL_MOD, fd, events, tag);
}

}  // namespace idproxy::bench
