#include "app/systemd.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/split.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "idproxy/base/scalars.hpp"

namespace idproxy::app {
namespace {

constexpr int kFirstPassed = 3;
constexpr std::int64_t kMostPassed = 1 << 20;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

/// Whether the variable has the number of this process: a child inherits what is its parent's.
bool names_us(const char* name) {
  return read_integer(variable(name)).value == ::getpid();
}

}  // namespace

void notify(std::string_view state) {
  const std::string_view path = variable("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool is_one = path.starts_with('/') || path.starts_with('@');
  if (!is_one || path.size() >= sizeof address.sun_path) return;
  std::ranges::copy(path, address.sun_path);
  if (path.front() == '@') address.sun_path[0] = '\0';  // an abstract one
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return;
  const std::size_t size = offsetof(sockaddr_un, sun_path) + path.size();
  (void)::sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size));
  ::close(descriptor);
}

std::optional<std::chrono::microseconds> watchdog_period() {
  if (!variable("WATCHDOG_PID").empty() && !names_us("WATCHDOG_PID")) return std::nullopt;
  const std::int64_t period = read_integer(variable("WATCHDOG_USEC")).value;
  if (period <= 0) return std::nullopt;
  return std::chrono::microseconds(period);
}

boost::system::result<std::vector<net::PassedSocket>, std::string> passed_sockets() {
  const auto contradiction = [](std::errc code) {
    return "$LISTEN_FDS and $LISTEN_FDNAMES: " + std::make_error_code(code).message();
  };
  std::vector<net::PassedSocket> sockets;
  if (!names_us("LISTEN_PID") || variable("LISTEN_FDS").empty()) return sockets;
  const std::int64_t count = read_integer(variable("LISTEN_FDS")).value;
  if (count <= 0 || count > kMostPassed) return contradiction(std::errc::invalid_argument);
  std::vector<std::string> names(static_cast<std::size_t>(count), "unknown");
  if (!variable("LISTEN_FDNAMES").empty()) {
    boost::split(names, variable("LISTEN_FDNAMES"), boost::is_any_of(":"));
  }
  if (std::cmp_not_equal(names.size(), count)) return contradiction(std::errc::invalid_argument);
  for (std::string& name : names) {
    const int descriptor = kFirstPassed + static_cast<int>(sockets.size());
    if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
      return contradiction(std::errc::bad_file_descriptor);
    }
    sockets.push_back({descriptor, std::move(name)});
  }
  for (const char* each : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(each);
  return sockets;
}

}  // namespace idproxy::app
