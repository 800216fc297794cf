#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/serve/watchdog.hpp"
#include "idproxy/admin/http_server.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/net/server.hpp"

namespace idproxy::app::serve {

/// The thread that says whether the process lives. It asks the io threads, and feeds systemd's
/// watchdog once all have answered; it serves HTTP at admin.listen and answers /livez itself. It
/// waits for nobody: the other pages are made on another thread, and files are read on a third.
class Pulse {
 public:
  Pulse();
  /// As stop().
  ~Pulse() { stop(); }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  /// Opens the HTTP server; it may also be asked by `names`. `pages` are made on the thread of
  /// their `io`.
  [[nodiscard]] ListenFault open(const net::Endpoint& admin, const std::vector<std::string>& names,
                                 admin::PagesElsewhere pages);

  // The following take effect soon, but for ignore(), which waits for that.

  /// From now on the io threads of `server` say whether the process lives; before, this one does.
  void watch(net::Server& server);
  /// They have ended, and are not used any more.
  void ignore();
  /// The server drains: asks systemd for more time than its own timeout, as long as all is well.
  void drains();
  /// Ends the thread. Idempotent.
  void stop();

 private:
  void await_tick();
  void on_tick();
  [[nodiscard]] bool all_well() const;

  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  const std::chrono::microseconds tick_;
  std::unique_ptr<admin::HttpServer> http_server_;
  std::optional<Watchdog> watchdog_;  // while the server runs
  bool drains_ = false;
  std::thread thread_;
};

}  // namespace idproxy::app::serve
