#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fd.hpp"

namespace idproxy::bench {

/// One read of this size takes what a socket usually holds; the proxy under test reads as much.
inline constexpr std::size_t kReadBytes = 256 * 1024;

struct Listener {
  Fd fd;
  std::uint16_t port = 0;
};

/// Throws std::system_error after a failed system call: `if (::call() < 0) throw_errno("call");`
[[noreturn]] void throw_errno(const char* call);

/// A listener on 127.0.0.1; port 0 takes a free one. Throws std::system_error.
Listener listen_on_loopback(std::uint16_t port = 0);

/// A port of 127.0.0.1 that was free a moment ago.
std::uint16_t free_port();

/// A blocking connection without Nagle's delay. Throws std::system_error.
Fd connect_to_loopback(std::uint16_t port);

/// Where a program listens that has a Unix socket in place of this port.
std::string unix_socket_of(std::uint16_t port);
/// The same as connect_to_loopback(), to that.
Fd connect_to_unix_socket(std::uint16_t port);

/// The next waiting connection, not blocking, without Nagle's delay; none when nobody waits.
Fd accept_from(const Fd& listener);

void set_nonblocking(const Fd& fd);

/// Bytes received into `buffer`, 0 when there are none for now, -1 when the peer has ended.
std::ptrdiff_t receive_some(const Fd& fd, char* buffer, std::size_t size);

/// Bytes sent, 0 when the socket is full, -1 when the peer is gone.
std::ptrdiff_t send_some(const Fd& fd, std::string_view bytes);

/// Registers `fd` for level-triggered `events`, which come back with `tag`.
void watch(const Fd& epoll, const Fd& fd, std::uint32_t events, std::uint64_t tag);
void change_watch(const Fd& epoll, const Fd& fd, std::uint32_t events, std::uint64_t tag);

}  // namespace idproxy::bench
