#pragma once

/// How a process can end.
namespace idproxy::app {

/// Exit codes: those of sysexits.h, which systemd and scripts know.
enum class ExitCode : int {
  ok = 0,
  left = 1,  ///< of a backfill: documents are left without a value
  /// Of a status, a doctor or a verification: something is wrong. Of counters: there is no such
  /// counter, or it must not be set so. Of ids: the rule cannot have made a value, or its values
  /// are not decoded.
  findings = 1,
  usage = 64,  ///< the command line
  /// A listener, or admin.listen, cannot be opened. Of a check, a backfill or a verification: no
  /// server answers, or a rule is not ready. Of a command that asks the running proxy: it does not
  /// answer, or not in time.
  unavailable = 69,
  internal = 70,       ///< a fault of the proxy
  no_permission = 77,  ///< cannot read the configuration, or may not use a port
  config = 78,         ///< the configuration has errors
};

}  // namespace idproxy::app
