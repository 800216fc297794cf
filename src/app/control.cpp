#include "app/control.hpp"

#include <pthread.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <future>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "app/health.hpp"
#include "app/readiness.hpp"
#include "app/run_out.hpp"
#include "app/server_limits.hpp"
#include "app/watchdog.hpp"
#include "idproxy/app/exit_code.hpp"
#include "idproxy/observability/log.hpp"
#include "idproxy/observability/metrics_page.hpp"

namespace idproxy::app {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr std::chrono::microseconds kTick = 1s;
constexpr std::chrono::seconds kHousekeeping = 5s;  // the log, and what systemd shows

Watchdog::Time now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

/// Notifies systemd, if it started this process.
void notify(const std::string& state) {
  ::sd_notify(0, state.c_str());
}

/// The interval of ticks: a third of systemd's watchdog period, at most kTick.
std::chrono::microseconds tick() {
  std::uint64_t period = 0;
  if (::sd_watchdog_enabled(0, &period) <= 0) return kTick;
  return std::clamp(std::chrono::microseconds(period / 3), std::chrono::microseconds(1ms), kTick);
}

sigset_t signals() {
  sigset_t set{};
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

}  // namespace

struct Control::Impl {
  explicit Impl(std::string its_version);
  ~Impl() { stop(); }

  void run();
  void stop();
  template <class F>
  auto on_thread(F f);

  // On the control thread:
  void await_signal();
  void signalled(int signal);
  void end();
  [[noreturn]] void leave();
  void reload();
  void await_tick();
  void look();
  [[nodiscard]] bool all_well() const;
  void housekeep();
  void look_at_numbers();
  void look_at_servers();
  void tell_status(bool always);
  void tell_readiness();
  void feed();
  [[nodiscard]] std::optional<Snapshot> snapshot() const;
  [[nodiscard]] admin::Pages pages();

  const std::string version;
  asio::io_context io{1};
  asio::signal_set signal_set{io, SIGTERM, SIGINT, SIGHUP};
  asio::steady_timer timer{io};
  const std::chrono::microseconds tick = app::tick();
  std::unique_ptr<admin::HttpServer> http_server;

  Phase phase = Phase::starting;
  net::Server* server = nullptr;
  id_store::Store* store = nullptr;
  Reload* reloader = nullptr;
  bool reload_wanted = false;  // by a SIGHUP that came too early
  bool end_wanted = false;     // by a SIGTERM
  bool last_reload_failed = false;
  ReadinessLog readiness_log;
  ServerLimitsLog server_limits_log;
  RunOut run_out;
  std::optional<Snapshot> last;      // once the server has ended
  std::optional<Watchdog> watchdog;  // while the server runs
  Watchdog::Time housekept{};
  std::string reported;  // to systemd
  std::thread thread;
};

Control::Impl::Impl(std::string its_version) : version(std::move(its_version)) {
  await_signal();
  await_tick();
  thread = std::thread([this] { run(); });
}

void Control::Impl::run() {
  pthread_setname_np(pthread_self(), "control");
  const sigset_t set = signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  try {
    io.run();
  } catch (const std::exception& error) {
    log::event(log::Level::error, "internal_error", "an internal error ends the proxy",
               {{"reason", error.what()}});
    log::finish(kLogFlushTimeout);
    std::_Exit(static_cast<int>(ExitCode::internal));
  }
}

void Control::Impl::stop() {
  if (!thread.joinable()) return;
  io.stop();
  thread.join();
}

/// Runs `f` on the control thread and returns its result.
template <class F>
auto Control::Impl::on_thread(F f) {
  std::packaged_task<decltype(f())()> task(std::move(f));
  auto result = task.get_future();
  asio::post(io, std::move(task));
  return result.get();
}

// ---- signals ---------------------------------------------------------------------------------

void Control::Impl::await_signal() {
  signal_set.async_wait([this](error_code error, int signal) {
    if (error) return;
    signalled(signal);
    await_signal();
  });
}

void Control::Impl::signalled(int signal) {
  if (signal == SIGHUP) return reload();
  if (server == nullptr) leave();
  if (std::exchange(end_wanted, true)) {
    log::event(log::Level::warning, "stopping", "told to stop twice: closing all connections now");
    server->stop();
  } else {
    end();
  }
}

void Control::Impl::end() {
  phase = Phase::draining;
  notify("STOPPING=1");
  tell_status(true);
  server->drain();
}

/// Ends the process before serve(): nothing has begun that needs an orderly end.
void Control::Impl::leave() {
  notify("STOPPING=1");
  log::event(log::Level::info, "stopped", "stopped before serving any client");
  log::finish(kLogFlushTimeout);
  std::_Exit(static_cast<int>(ExitCode::ok));
}

void Control::Impl::reload() {
  if (phase == Phase::starting) {
    reload_wanted = true;
    return;
  }
  if (phase == Phase::draining) return;  // a reload would have no effect
  const auto monotonic = std::chrono::duration_cast<std::chrono::microseconds>(now()).count();
  notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic) + "\nSTATUS=reloading");
  last_reload_failed = reloader->reload() == Reload::Result::refused;
  look_at_numbers();
  notify("READY=1");
  tell_status(true);
}

// ---- from time to time -----------------------------------------------------------------------

void Control::Impl::await_tick() {
  timer.expires_after(tick);
  timer.async_wait([this](error_code error) {
    if (error) return;
    look();
    await_tick();
  });
}

void Control::Impl::look() {
  feed();  // reports the answers to the previous tick's questions
  if (watchdog) watchdog->look(now());
  if (phase == Phase::draining && !last) {
    // limits.drain may be longer than systemd's timeout. The first io thread enforces it; if a
    // thread is stuck, let systemd end the process.
    if (all_well()) notify("EXTEND_TIMEOUT_USEC=10000000");
    tell_status(false);
  }
  tell_readiness();
  if (now() - housekept >= kHousekeeping) housekeep();
}

void Control::Impl::tell_readiness() {
  if (phase != Phase::serving) return;
  const RulesInForce& rules = reloader->rules();
  readiness_log.look(rules.set->rules(), rules.watch->counter_obstacles());
}

bool Control::Impl::all_well() const {
  if (!watchdog) return true;
  return std::ranges::all_of(watchdog->owed(now()),
                             [](Watchdog::Time owed) { return owed < Watchdog::kStuck; });
}

/// Random digits and ranges have events of their own, which the id store logs.
void Control::Impl::look_at_numbers() {
  if (phase != Phase::serving) return;
  const RulesInForce& rules = reloader->rules();
  run_out.look(rules.set->rules(), rules.watch->numbers(std::numeric_limits<std::size_t>::max()),
               now());
  for (const RunOut::Warning& each : run_out.take_news()) {
    const rewrite::Rule& rule = rules.set->rules()[each.rule_index];
    if (each.end == RunOut::End::max_fill || rule.strategy_name == "counter-ranges") continue;
    log::event(log::Level::warning, "numbers_run_out",
               each.text() + ": " + std::string(each.way_out()),
               {{"ns", each.ns},
                {"field", rule.field},
                {"left", each.left},
                {"used_in_an_hour", each.per_hour}});
  }
}

void Control::Impl::look_at_servers() {
  if (phase != Phase::serving) return;
  server_limits_log.look(reloader->rules().set->rules(), server->statistics().listeners);
}

void Control::Impl::housekeep() {
  housekept = now();
  log::catch_up();
  look_at_numbers();
  look_at_servers();
  tell_status(false);
}

void Control::Impl::feed() {
  // Before the io threads run, the control thread vouches for the process.
  if (!watchdog || watchdog->all_answered()) notify("WATCHDOG=1");
}

/// Sends the status line to systemd if it has changed, or `always`.
void Control::Impl::tell_status(bool always) {
  std::string status = status_line(phase, snapshot());
  if (status == reported && !always) return;
  notify("STATUS=" + status);
  reported = std::move(status);
}

// ---- pages -----------------------------------------------------------------------------------

std::optional<Snapshot> Control::Impl::snapshot() const {
  if (server == nullptr || last) return last;
  const auto certificates = [](const std::shared_ptr<const net::tls::Context>& context) {
    return context ? context->certificates() : std::vector<net::tls::Certificate>();
  };
  const RulesInForce& rules = reloader->rules();
  id_store::StoreStatistics known = store->statistics();
  if (const auto why = rules.watch->why_down(); why && known.up) {
    known.up = false;
    known.down_reason = *why;
  }
  return Snapshot{.draining = phase == Phase::draining,
                  .net = server->statistics(),
                  .store = known,
                  .rules = rules.set,
                  .not_ready = rules.watch->not_ready_counts(),
                  .reasons = reasons_of(*rules.set),
                  .numbers = rules.watch->numbers(std::numeric_limits<std::size_t>::max()),
                  .run_out = run_out.current(),
                  .reloads = reloader->statistics(),
                  .last_reload_failed = last_reload_failed,
                  .client_side = certificates(reloader->client_tls()),
                  .server_side = certificates(reloader->server_tls())};
}

admin::Pages Control::Impl::pages() {
  return {
      {"/", [this] { return index_page(version); }},
      {"/livez",
       [this] { return livez(watchdog ? watchdog->owed(now()) : std::vector<Watchdog::Time>()); }},
      {"/readyz", [this] { return readyz(phase, snapshot()); }},
      {"/metrics", [this] {
         return admin::HttpResponse{
             .body = exposition(version, process_statistics(), log::counts(), snapshot()),
             .content_type = metrics::kContentType};
       }}};
}

// ---- for the main thread ---------------------------------------------------------------------

void Control::block_signals() {
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

Control::Control(std::string version) : impl_(std::make_unique<Impl>(std::move(version))) {}
Control::~Control() = default;

std::string Control::open(const net::Endpoint& admin) {
  return impl_->on_thread([&impl = *impl_, &admin]() -> std::string {
    auto opened = admin::HttpServer::open(impl.io, admin.host, admin.port, impl.pages());
    if (!opened) return opened.error();
    impl.http_server = std::move(*opened);
    log::event(log::Level::info, "admin_listening", "answering operators by HTTP",
               {{"address", impl.http_server->address()}});
    return "";
  });
}

void Control::serve(net::Server& server, id_store::Store& store, Reload& reload) {
  impl_->on_thread([&impl = *impl_, &server, &store, &reload] {
    impl.server = &server;
    impl.store = &store;
    impl.reloader = &reload;
  });
}

void Control::announce() {
  impl_->on_thread([&impl = *impl_] {
    impl.watchdog.emplace(
        impl.server->threads(),
        [&server = *impl.server](std::size_t thread, std::function<void()> answer) {
          server.ask(thread, std::move(answer));
        });
    if (impl.phase == Phase::draining) return;
    impl.phase = Phase::serving;
    const RulesInForce& rules = impl.reloader->rules();
    const RuleLists lists = lists_of(rules.set->rules(), reasons_of(*rules.set));
    log::event(log::Level::info, "ready",
               lists.not_ready.empty() ? "ready" : "ready, but some rules give no values",
               {{"rules", rules.set->rules().size()},
                {"rules_ready", lists.ready},
                {"rules_not_ready", lists.not_ready}});
    impl.tell_readiness();
    notify("READY=1");
    impl.tell_status(true);
    if (impl.reload_wanted) asio::post(impl.io, [&impl] { impl.reload(); });
  });
}

void Control::finished() {
  impl_->on_thread([&impl = *impl_] {
    impl.phase = Phase::draining;
    impl.watchdog.reset();
    impl.last = impl.snapshot();
  });
}

void Control::stop() {
  impl_->stop();
}

}  // namespace idproxy::app
