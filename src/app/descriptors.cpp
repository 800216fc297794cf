#include "app/descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "idproxy/log/log.hpp"
#include "idproxy/rewrite/topology.hpp"

namespace idproxy::app {
namespace {

// The process: connections of the store, 64 HTTP clients, the log. Each listener: its socket and a
// spare descriptor. Each io thread: epoll, its eventfd and its timerfd.
constexpr std::uint64_t kOwn = 100;
constexpr std::uint64_t kOfListener = 2;
constexpr std::uint64_t kOfThread = 3;

std::uint64_t own_descriptors(const net::Options& options) {
  const std::uint64_t joining = options.map_members ? rewrite::Topology::kMostMembers : 0;
  return kOwn + kOfListener * (options.routes.size() + joining) + kOfThread * options.threads;
}

}  // namespace

void reserve_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    // open() uses the lowest free descriptor, which is this one.
    if (::fcntl(descriptor, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
}

std::uint64_t needed_descriptors(const net::Options& options) {
  return std::uint64_t{2} * options.max_connections + own_descriptors(options);
}

std::uint32_t connections_within(std::uint64_t limit, const net::Options& options) {
  // With a low limit, assume that the proxy does not need all of its own at once.
  const std::uint64_t own = std::min(own_descriptors(options), limit / 2);
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>((limit - own) / 2, 1, options.max_connections));
}

std::uint32_t permitted_connections(const net::Options& options) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return options.max_connections;
  const std::uint64_t needed = needed_descriptors(options);
  if (limit.rlim_cur < needed) {
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, needed);
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  }
  if (limit.rlim_cur >= needed) return options.max_connections;
  const std::uint32_t permitted = connections_within(limit.rlim_cur, options);
  log::event(log::Level::warning, "max_connections_lowered",
             "not enough file descriptors for listen.max_connections: raise LimitNOFILE= of the "
             "unit, or ulimit -n",
             {{"max_connections", options.max_connections},
              {"permitted", permitted},
              {"descriptors", static_cast<std::uint64_t>(limit.rlim_cur)},
              {"needed", needed}});
  return permitted;
}

}  // namespace idproxy::app
