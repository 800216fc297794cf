#pragma once

#include <sys/types.h>

#include <string>

namespace idproxy::app {

/// The stack of a thread of this process, innermost call first, for addr2line:
/// "/usr/bin/mongo-idproxy(+0x51234) …". Interrupts the thread with SIGUSR2, which the process must
/// not use otherwise. Empty if the thread does not respond within 200 ms, as when it is blocked in
/// the kernel. One call at a time.
[[nodiscard]] std::string trace_of(pid_t thread);

}  // namespace idproxy::app
