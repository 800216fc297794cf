#pragma once

#include <cstdint>
#include <string>

/// What a command line can ask for, and how a process can end.
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

/// The scope of a check of a configuration.
enum class CheckWith {
  file,     ///< nothing but the file and the files that it names
  servers,  ///< also the servers: whether they answer, and whether each rule is ready
};

/// A backfill as the command line asks for it.
struct BackfillRequest {
  std::string file;           ///< the configuration
  std::string ns;             ///< "db.collection"
  std::string field;          ///< which a rule fills; dotted path
  std::string sort = "_id";   ///< documents get values in its order; "-created": descending
  std::string period_from{};  ///< the field whose date says a document's period; empty: not given
  std::uint32_t rate = 0;     ///< documents per second at most; 0: no limit
  enum class Mode { write, dry_run } mode = Mode::write;
};

}  // namespace idproxy::app
