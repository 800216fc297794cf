#pragma once

#include <sys/types.h>

#include <string>

namespace idproxy::app {

/// Where a thread of this process is, innermost call first: "/usr/bin/mongo-idproxy(+0x51234) …",
/// for addr2line. Empty if it does not say within 200 ms, as while the kernel has it. It is
/// interrupted by SIGUSR2, which is not for anything else. One call at a time.
[[nodiscard]] std::string trace_of(pid_t thread);

}  // namespace idproxy::app
