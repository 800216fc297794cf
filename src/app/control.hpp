#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "app/reload.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/net/server.hpp"

namespace idproxy::app {

/// How long to wait at exit until standard error has taken all lines of the log.
inline constexpr std::chrono::seconds kLogFlushTimeout{1};

/// The control thread: signals, the pages on admin.listen, systemd, the watchdog, reloads. It does
/// all that an operator asks of the process, so that none of it delays a client.
///
/// Only this thread receives signals; block_signals() blocks them in all others. SIGTERM and SIGINT
/// drain the server, and a second one stops it at once; before there is a server, they end the
/// process. SIGHUP reloads.
class Control {
 public:
  /// Blocks the signals until a Control exists. Call it first in the process.
  static void block_signals();
  explicit Control(std::string version);
  /// As stop().
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Opens the HTTP server. Returns an error text, or "".
  [[nodiscard]] std::string open(const net::Endpoint& admin);

  /// From now on, signals and pages concern these, which must outlive stop().
  void serve(net::Server& server, id_store::Store& store, Reload& reload);
  /// Tells the log, systemd and /readyz that the server is ready, unless a signal has stopped it
  /// meanwhile.
  void announce();
  /// The server has ended: from now on the pages show its last state, and the store is not used.
  void finished();
  /// Ends the thread.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace idproxy::app
