#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <span>

#include "idproxy/base/bytes.hpp"

/// The system calls that every message makes, as in their manual pages. glibc's own functions
/// announce to pthread_cancel(), before and after each call, that the thread may end there: two
/// atomic operations, 25 ns each time. Nobody cancels the threads of the proxy. Builds with a
/// sanitizer call glibc's functions: the sanitizer knows from them what becomes of the memory.
namespace idproxy::net::system_calls {

#ifdef IDPROXY_SANITIZED

inline ssize_t recv(int fd, std::span<std::uint8_t> to, int flags) {
  return ::recv(fd, to.data(), to.size(), flags);
}

inline ssize_t send(int fd, Bytes bytes, int flags) {
  return ::send(fd, bytes.data(), bytes.size(), flags);
}

inline int epoll_wait(int epoll, std::span<epoll_event> events, int milliseconds) {
  return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), milliseconds);
}

#else

inline ssize_t recv(int fd, std::span<std::uint8_t> to, int flags) {
  return ::syscall(SYS_recvfrom, fd, to.data(), to.size(), flags, nullptr, nullptr);
}

inline ssize_t send(int fd, Bytes bytes, int flags) {
  return ::syscall(SYS_sendto, fd, bytes.data(), bytes.size(), flags, nullptr, 0);
}

inline int epoll_wait(int epoll, std::span<epoll_event> events, int milliseconds) {
  // Without a mask of signals; not all architectures have epoll_wait itself.
  return static_cast<int>(
      ::syscall(SYS_epoll_pwait, epoll, events.data(), events.size(), milliseconds, nullptr, 0));
}

#endif

}  // namespace idproxy::net::system_calls
