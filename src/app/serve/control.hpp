#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/serve/event_thread.hpp"
#include "app/serve/pulse.hpp"
#include "app/serve/reload.hpp"
#include "app/serve/watchdog.hpp"
#include "app/state/health.hpp"
#include "app/state/proxy_differences.hpp"
#include "app/state/readiness.hpp"
#include "app/state/recent.hpp"
#include "app/state/refusals.hpp"
#include "app/state/rules_in_force.hpp"
#include "app/state/run_out.hpp"
#include "app/state/servers_log.hpp"
#include "app/state/status_document.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/net/server.hpp"

namespace idproxy::app::serve {

/// The control thread: signals, the pages on admin.listen, systemd, the log of what changes. It
/// does all that an operator asks of the process, so that none of it delays a client. Files are
/// read on a thread of their own, where a reload waits for them and for the id store, and whether
/// the process lives is said by a third one (pulse.hpp).
///
/// Only this thread receives signals; block_signals() blocks them in all others. SIGTERM and SIGINT
/// drain the server, and a second one, or SIGQUIT, stops it at once; before there is a server, they
/// end the process. SIGHUP reloads, and with `reload: watch` a changed file.
class Control {
 public:
  /// Blocks the signals until a Control exists, and has the process ignore those that it has no use
  /// for. Call it first in the process.
  static void block_signals();
  explicit Control(std::string version);
  /// As stop().
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// Opens the HTTP server at `admin`; it may also be asked by `names`.
  [[nodiscard]] ListenFault open(const net::Endpoint& admin, const std::vector<std::string>& names);

  /// From now on, signals and pages concern these, which must outlive stop().
  void serve(net::Server& server, id_store::Store& store, Reload& reload);
  /// Has the log, systemd and /readyz told that the server is ready, unless a signal has stopped it
  /// meanwhile. Does not wait for that.
  void announce();
  /// Has the control thread make the answer to {idproxy: "status"} for a client of this listener.
  /// Any thread may call it, and what it returns.
  [[nodiscard]] rewrite::StatusDocument have_status_made(const std::string& listener);
  /// The server has ended: from now on the pages show its last state, and the store is not used.
  void finished();
  /// Ends the thread.
  void stop();

 private:
  // On the control thread:
  void await_signal();
  void signalled(int signal);
  void end();
  [[noreturn]] static void leave();
  void reload();
  void reloaded(Reload::Result result);
  void check_files();
  void await_tick();
  void on_tick();
  void housekeep();
  void look_at_numbers();
  void tell_status(bool always);
  void tell_readiness();
  void look_at_servers();
  void make_status(const std::string& listener);
  void introduce();
  [[nodiscard]] std::optional<state::Snapshot> snapshot() const;
  /// `asked`: the listener whose client asks with {idproxy: "status"}.
  [[nodiscard]] boost::json::value status(const state::StatusQuery& query,
                                          std::optional<std::string> asked = {});
  [[nodiscard]] admin::Pages pages();

  const std::string version_;
  Pulse pulse_;  // outlives what io_ holds of it
  boost::asio::io_context io_{1};
  boost::asio::io_context files_{1};
  const boost::asio::executor_work_guard<boost::asio::io_context::executor_type> files_guard_{
      files_.get_executor()};
  boost::asio::signal_set signal_set_{io_, SIGTERM, SIGINT, SIGHUP};
  boost::asio::steady_timer timer_{io_};
  state::Phase phase_ = state::Phase::starting;
  net::Server* server_ = nullptr;
  id_store::Store* store_ = nullptr;
  Reload* reload_ = nullptr;
  state::RulesInForce rules_;    // that pages show; a reload may have others already
  bool reload_wanted_ = false;   // by a SIGHUP that came too early
  bool reloads_ = false;         // the thread of files does
  bool looks_at_files_ = false;  // the same
  bool end_wanted_ = false;      // by a SIGTERM
  bool last_reload_failed_ = false;
  state::ReadinessLog readiness_log_;
  state::ServerLimitsLog server_limits_log_;
  state::RunOut run_out_;
  state::Refusals refusals_;
  state::ServersLog servers_log_;
  state::ProxyDifferences differences_;
  std::vector<std::string> introduced_;  // the listeners that other proxies know of
  state::Recent recent_;
  std::optional<state::Snapshot> last_;  // once the server has ended
  Watchdog::Time housekept_{};
  Watchdog::Time looked_at_files_{};
  std::string reported_;  // to systemd
  std::promise<void> files_ended_;
  std::thread files_thread_;
  std::thread thread_;

  /// A document that is to be made, for all who ask meanwhile.
  struct Awaited {
    std::promise<std::shared_ptr<const Buffer>> maker;
    std::shared_future<std::shared_ptr<const Buffer>> made = maker.get_future().share();
  };
  std::mutex awaited_mutex_;                               // guards:
  std::map<std::string, std::weak_ptr<Awaited>> awaited_;  // by listener; until it is begun
};

}  // namespace idproxy::app::serve
