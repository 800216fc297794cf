#pragma once

namespace idproxy::app {

/// Exit codes: those of sysexits.h, which systemd and scripts know.
enum class ExitCode : int {
  ok = 0,
  usage = 64,          ///< the command line
  unavailable = 69,    ///< a listener, or admin.listen, cannot be opened
  internal = 70,       ///< our own fault
  no_permission = 77,  ///< the configuration cannot be read, or a port is not permitted
  config = 78,         ///< the configuration has errors
};

}  // namespace idproxy::app
