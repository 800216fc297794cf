#include "app/state/process_statistics.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace idproxy::app::state {
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

}  // namespace idproxy::app::state
