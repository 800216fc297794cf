#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "idproxy/id_store/store.hpp"
#include "idproxy/net/server.hpp"
#include "reload.hpp"

namespace idproxy::app {

/// How long to wait at the end for whoever reads the log.
inline constexpr std::chrono::seconds kLogFlushTimeout{1};

/// The control thread: signals, the pages on admin.listen, systemd, the watchdog, reloads. All that
/// an operator asks of the process is done here, so that none of it holds up a client.
///
/// Signals are for this thread alone: after block_signals() all others have them blocked. SIGTERM
/// and SIGINT drain the server, the second one of them ends it at once; before there is a server
/// they end the process. SIGHUP reloads.
class Control {
 public:
  /// The first thing in the process: they wait for a Control, and end nothing meanwhile.
  static void block_signals();
  explicit Control(std::string version);
  /// As stop().
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Opens the endpoint of the pages. What is wrong, or "".
  [[nodiscard]] std::string open(const net::Endpoint& admin);

  /// Signals and pages are about these from now on. They outlive stop().
  void serve(net::Server& server, id_store::Store& store, Reload& reload);
  /// The server is about to run: tells the log, systemd and who looks at /readyz, unless a signal
  /// has said meanwhile that it is to end.
  void announce();
  /// The server has ended. The store is not asked any more; the pages go on to show the last.
  void finished();
  /// Ends the thread.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::app
