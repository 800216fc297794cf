#include "app/process.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

#include "idproxy/log/log.hpp"
#include "idproxy/rewrite/topology.hpp"

namespace idproxy::app {
namespace {

constexpr const char* kDescriptors = "/proc/self/fd";

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::uint64_t open_fds() {
  // Since Linux 6.2 the directory's size is their number; before, they must be counted.
  struct stat status{};
  if (::stat(kDescriptors, &status) == 0 && status.st_size > 0) {
    return static_cast<std::uint64_t>(status.st_size);
  }
  std::error_code ignored;
  const std::filesystem::directory_iterator begin(kDescriptors, ignored);
  return static_cast<std::uint64_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

std::uint64_t max_fds() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

/// The start of the process, in seconds since 1970: field 22 of proc_pid_stat(5), in ticks since
/// boot, converted with the current clock. /proc/stat has the time of the boot, but the systemd
/// unit hides it (ProcSubset=pid).
double start_time() {
  constexpr int kFieldsBehindName = 19;  // up to it
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  for (int i = 0; i < kFieldsBehindName; ++i) fields >> text;
  double ticks = 0;
  fields >> ticks;
  timespec up{};
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  const double age = static_cast<double>(up.tv_sec) + static_cast<double>(up.tv_nsec) / 1e9 -
                     ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count() - age;
}

class SystemClock final : public Clock {
 public:
  std::chrono::nanoseconds wall() const override {
    return std::chrono::system_clock::now().time_since_epoch();
  }
  std::chrono::nanoseconds monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};
const SystemClock kClock;

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

ProcessStatistics process_statistics() {
  ProcessStatistics statistics;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  statistics.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::ifstream("/proc/self/statm") >> statistics.virtual_memory_bytes >>
      statistics.resident_memory_bytes;
  statistics.virtual_memory_bytes *= page;
  statistics.resident_memory_bytes *= page;
  statistics.open_fds = open_fds();
  statistics.max_fds = max_fds();
  // Read once: after a change of the system clock, monitoring would take a new value for a restart.
  static const double start = start_time();
  statistics.start_time_seconds = start;
  return statistics;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

ids::Sources process_sources() {
  return {kClock, system_random()};
}

std::chrono::nanoseconds monotonic_now() {
  return kClock.monotonic();
}

void reserve_standard_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    // open() uses the lowest free descriptor, which is this one.
    if (::fcntl(descriptor, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
}

boost::system::result<std::vector<net::PassedSocket>, std::string> passed_sockets() {
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);
  if (count < 0) {
    return "$LISTEN_FDS and $LISTEN_FDNAMES: " +
           std::error_code(-count, std::generic_category()).message();
  }
  std::vector<net::PassedSocket> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.push_back({SD_LISTEN_FDS_START + i, names[i]});
    std::free(names[i]);
  }
  std::free(static_cast<void*>(names));
  return sockets;
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
