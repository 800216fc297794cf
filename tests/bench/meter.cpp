#include "meter.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "sockets.hpp"

namespace idproxy::bench {
namespace {

/// Of one thread, in user space and in the kernel; where the kernel may not be watched, in user
/// space only. No descriptor if neither is possible.
Fd count_instructions(pid_t thread) {
  perf_event_attr wanted{};
  wanted.type = PERF_TYPE_HARDWARE;
  wanted.config = PERF_COUNT_HW_INSTRUCTIONS;
  wanted.size = sizeof wanted;
  wanted.exclude_hv = 1;
  const auto open = [&] {
    return static_cast<int>(
        ::syscall(SYS_perf_event_open, &wanted, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
  };
  if (Fd both(open()); both.get() >= 0) return both;
  wanted.exclude_kernel = 1;
  return Fd(open());
}

}  // namespace

Meter::Meter(const Child& process) : process_(process) {
  for (const pid_t thread : process.threads()) {
    Fd counter = count_instructions(thread);
    if (counter.get() < 0) {
      counters_.clear();
      return;
    }
    counters_.push_back(std::move(counter));
  }
}

double Meter::read() const {
  if (counters_.empty()) {
    return std::chrono::duration<double, std::micro>(process_.cpu_time()).count();
  }
  double sum = 0;
  for (const Fd& counter : counters_) {
    std::uint64_t count = 0;
    if (::read(counter.get(), &count, sizeof count) != sizeof count) throw_errno("read");
    sum += static_cast<double>(count) / 1000;
  }
  return sum;
}

}  // namespace idproxy::bench
