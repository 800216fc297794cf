#pragma once

namespace idproxy::app {

/// Exit codes: those of sysexits.h, which systemd and scripts know.
enum class ExitCode : int {
  ok = 0,
  left = 1,    ///< of a backfill: documents are left without a value
  usage = 64,  ///< the command line
  /// A listener, or admin.listen, cannot be opened. Of a check or a backfill: no server answers, or
  /// a rule is not ready.
  unavailable = 69,
  internal = 70,       ///< a fault of the proxy
  no_permission = 77,  ///< cannot read the configuration, or may not use a port
  config = 78,         ///< the configuration has errors
};

}  // namespace idproxy::app
