#include "app/serve/control.hpp"
#include "app/json_view.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "app/state/findings.hpp"
#include "app/state/process_statistics.hpp"
#include "app/system_clock.hpp"
#include "app/systemd.hpp"
#include "app/views/metrics_table.hpp"
#include "app/views/status_page.hpp"
#include "idproxy/app/command_line.hpp"
#include "idproxy/app/version.hpp"
#include "idproxy/log/log.hpp"
#include "idproxy/metrics/metrics_page.hpp"

namespace idproxy::app::serve {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr std::chrono::seconds kTick = 1s;
// How long to wait at the end for files that are read: they may be on a mount that stands still.
constexpr std::chrono::seconds kFilesWithin = 1s;
constexpr std::chrono::seconds kLookAtFiles = 2s;   // with `reload: watch`
constexpr std::chrono::seconds kHousekeeping = 5s;  // the log, and what systemd shows

std::vector<std::string> listeners_of(const net::ServerStatistics& net) {
  std::vector<std::string> listeners;
  listeners.reserve(net.listeners.size());
  for (const auto& each : net.listeners) listeners.push_back(each.listener);
  return listeners;
}

/// Without the rules that are not ready for that reason.
std::map<std::size_t, id_store::MissingIndex> unguarded(const state::RulesInForce& rules) {
  auto found = rules.watch->lack_index();
  std::erase_if(found, [&](const auto& each) {
    return rules.set->rules()[each.first].unique_index != ids::UniqueIndex::warn;
  });
  return found;
}

sigset_t signals() {
  sigset_t set{};
  for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

/// Signals that would end the process and mean nothing to it, such as SIGUSR1, with which mongod's
/// logrotate asks for a new file. trace_of() has SIGUSR2 for itself once it is called.
constexpr std::array kNotOurs{SIGUSR1, SIGUSR2, SIGALRM,   SIGVTALRM, SIGPROF,
                              SIGIO,   SIGPWR,  SIGSTKFLT, SIGXFSZ,   SIGPIPE};

}  // namespace

Control::Control(std::string version) : version_(std::move(version)) {
  signal_set_.add(SIGQUIT);  // its constructor takes three
  await_signal();
  await_tick();
  thread_ = std::thread([this] {
    const sigset_t set = signals();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    run_loop(io_, "control");
  });
  try {
    files_thread_ = std::thread([this] {
      run_loop(files_, "files");
      files_ended_.set_value();
    });
  } catch (const std::system_error&) {
    stop();
    throw;
  }
}

void Control::stop() {
  if (!thread_.joinable()) return;
  pulse_.stop();
  io_.stop();
  thread_.join();
  rules_ = {};  // before the store goes
  if (!files_thread_.joinable()) return;
  files_.stop();
  if (files_ended_.get_future().wait_for(kFilesWithin) != std::future_status::ready) {
    log::event(log::Level::warning, "reload_hangs",
               "a reload still waits for a file or for the id store: the end does not wait for it");
    log::finish(kLogFlushTimeout);
    std::_Exit(static_cast<int>(ExitCode::ok));
  }
  files_thread_.join();
}

// ---- signals ---------------------------------------------------------------------------------

void Control::await_signal() {
  signal_set_.async_wait([this](error_code error, int signal) {
    if (error) return;
    signalled(signal);
    await_signal();
  });
}

void Control::signalled(int signal) {
  if (signal == SIGHUP) return reload();
  if (server_ == nullptr) leave();
  const bool again = std::exchange(end_wanted_, true);
  if (!again) end();
  if (!again && signal != SIGQUIT) return server_->drain();
  log::event(log::Level::warning, "stopping",
             signal == SIGQUIT ? "told to stop by SIGQUIT: closing all connections now"
                               : "told to stop twice: closing all connections now");
  server_->stop();
}

void Control::end() {
  phase_ = state::Phase::draining;
  notify("STOPPING=1");
  pulse_.drains();
  store_->drain();
  tell_status(true);
}

/// Ends the process before serve(): nothing has begun that needs an orderly end.
void Control::leave() {
  notify("STOPPING=1");
  log::event(log::Level::info, "stopped", "stopped before serving any client");
  log::finish(kLogFlushTimeout);
  std::_Exit(static_cast<int>(ExitCode::ok));
}

void Control::reload() {
  if (phase_ == state::Phase::starting) {
    reload_wanted_ = true;
    return;
  }
  if (phase_ == state::Phase::draining) return;  // a reload would have no effect
  if (std::exchange(reloads_, true)) {           // which may have read the file already
    reload_wanted_ = true;
    return;
  }
  const auto monotonic =
      std::chrono::duration_cast<std::chrono::microseconds>(monotonic_now()).count();
  notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(monotonic) + "\nSTATUS=reloading");
  asio::post(files_, [this] {
    const Reload::Result result = reload_->reload();
    asio::post(io_, [this, result] { reloaded(result); });
  });
}

void Control::reloaded(Reload::Result result) {
  reloads_ = false;
  last_reload_failed_ = result == Reload::Result::refused;
  if (phase_ == state::Phase::draining) return;
  refusals_.finish(*rules_.set, monotonic_now());
  recent_.forget_rules();
  rules_ = reload_->in_force().rules;
  look_at_numbers();
  introduce();
  notify("READY=1");
  tell_status(true);
  if (std::exchange(reload_wanted_, false)) reload();
}

/// Reads the files themselves: a ConfigMap is renewed by a symbolic link that comes to lead
/// elsewhere.
void Control::check_files() {
  if (phase_ != state::Phase::serving || reloads_ || looks_at_files_) return;
  if (monotonic_now() - looked_at_files_ < kLookAtFiles) return;
  looked_at_files_ = monotonic_now();
  looks_at_files_ = true;
  asio::post(files_, [this] {
    const bool changed = reload_->sees_change();
    asio::post(io_, [this, changed] {
      looks_at_files_ = false;
      if (changed) reload();
    });
  });
}

// ---- from time to time -----------------------------------------------------------------------

void Control::await_tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](error_code error) {
    if (error) return;
    on_tick();
    await_tick();
  });
}

void Control::on_tick() {
  if (phase_ == state::Phase::draining && !last_) tell_status(false);
  tell_readiness();
  look_at_servers();
  check_files();
  if (monotonic_now() - housekept_ >= kHousekeeping) housekeep();
}

void Control::look_at_servers() {
  if (server_ == nullptr || last_) return;
  const net::ServerStatistics net = server_->statistics();
  if (phase_ == state::Phase::serving) servers_log_.update(net.listeners, rules_.set->rules());
  recent_.sample(net, store_->statistics(), *rules_.set, monotonic_now());
  refusals_.update(*rules_.set, monotonic_now());
  differences_.update(store_->proxies(), monotonic_now());
  if (phase_ == state::Phase::serving && listeners_of(net) != introduced_) introduce();
}

/// Tells the proxies on other hosts what this one is now.
void Control::introduce() {
  introduced_ = listeners_of(server_->statistics());
  std::set<std::string> namespaces;
  for (const rewrite::Rule& each : rules_.set->rules()) namespaces.insert(each.ns);
  store_->introduce({.host = state::host_name(),
                     .version = version_,
                     .listeners = introduced_,
                     .rules_hash = state::rules_hash(*rules_.set),
                     .namespaces = {namespaces.begin(), namespaces.end()}});
}

void Control::tell_readiness() {
  if (phase_ != state::Phase::serving) return;
  readiness_log_.update(rules_.set->rules(), rules_.watch->counters_not_ready());
}

/// Random digits and ranges have events of their own, which the id store logs.
void Control::look_at_numbers() {
  if (phase_ != state::Phase::serving) return;
  run_out_.update(rules_.set->rules(),
                  rules_.watch->numbers(std::numeric_limits<std::size_t>::max()), monotonic_now(),
                  process_sources().clock.wall());
  for (const state::RunOut::Warning& each : run_out_.take_news()) {
    const rewrite::Rule& rule = rules_.set->rules()[each.rule_index];
    using End = state::RunOut::End;
    if (each.end == End::max_fill || each.end == End::ranges) continue;
    log::event(state::numbers_run_out(rule, each), {{"ns", each.ns},
                                                    {"field", rule.field},
                                                    {"left", each.left},
                                                    {"used_in_an_hour", each.per_hour}});
  }
}

void Control::housekeep() {
  housekept_ = monotonic_now();
  log::catch_up();
  look_at_numbers();
  if (phase_ == state::Phase::serving) {
    server_limits_log_.update(rules_.set->rules(), server_->statistics().listeners);
  }
  tell_status(false);
}

/// Sends the status line to systemd if it has changed, or `always`.
void Control::tell_status(bool always) {
  std::string status = state::status_line(phase_, snapshot());
  if (status == reported_ && !always) return;
  notify("STATUS=" + status);
  reported_ = std::move(status);
}

// ---- pages -----------------------------------------------------------------------------------

std::optional<state::Snapshot> Control::snapshot() const {
  if (server_ == nullptr || last_) return last_;
  const auto certificates = [](const std::shared_ptr<const net::tls::Context>& context) {
    return context ? context->certificates() : std::vector<net::tls::Certificate>();
  };
  Reload::InForce now = reload_->in_force();
  id_store::StoreStatistics known = store_->statistics();
  if (const auto why = rules_.watch->why_down(); why && known.up) {
    known.up = false;
    known.down_reason = *why;
  }
  return state::Snapshot{.draining = phase_ == state::Phase::draining,
                         .net = server_->statistics(),
                         .store = known,
                         .rules = rules_.set,
                         .not_ready = rules_.watch->not_ready_counts(),
                         .reasons = state::reasons_of(*rules_.set),
                         .unguarded = unguarded(rules_),
                         .numbers = rules_.watch->numbers(std::numeric_limits<std::size_t>::max()),
                         .refused = refusals_.current(monotonic_now()),
                         .run_out = run_out_.current(),
                         .outlooks = run_out_.outlooks(),
                         .proxies = store_->proxies(),
                         .differences = differences_.current(),
                         .reloads = std::move(now.statistics),
                         .last_reload_failed = last_reload_failed_,
                         .client_side = certificates(now.client_tls),
                         .server_side = certificates(now.server_tls)};
}

boost::json::value Control::status(const state::StatusQuery& query,
                                   std::optional<std::string> asked) {
  const std::optional<state::Snapshot> state = snapshot();
  if (state) recent_.see(state->net, state->store);
  const Clock& clock = process_sources().clock;
  const bool serves = server_ != nullptr && !last_;
  return state::status_document(
      {.version = version_,
       .commit = std::string(commit()),
       .file = reload_ == nullptr ? std::string() : reload_->file(),
       .phase = phase_,
       .now = clock.wall(),
       .started = std::chrono::nanoseconds(
           static_cast<std::int64_t>(state::process_statistics().start_time_seconds * 1e9)),
       .monotonic = clock.monotonic(),
       .lines = log::last_lines(),
       .asked = std::move(asked)},
      state ? &*state : nullptr, recent_,
      serves ? server_->clients(state::clients_for(query)) : net::ClientList{}, query);
}

admin::Pages Control::pages() {
  const auto of_type = [](const char* type, std::string (*file)()) {
    return
        [=](std::string_view) { return admin::HttpResponse{.body = file(), .content_type = type}; };
  };
  return {
      {"/",
       [this](std::string_view asked) {
         const state::StatusQuery query = state::StatusQuery::parse(asked);
         return admin::HttpResponse{.body = views::status_page(status(query), query),
                                    .content_type = "text/html; charset=utf-8"};
       }},
      {"/status.json",
       [this](std::string_view asked) {
         return admin::HttpResponse{.body = json_line(status(state::StatusQuery::parse(asked))),
                                    .content_type = "application/json"};
       }},
      {"/status.css", of_type("text/css; charset=utf-8", views::status_css)},
      {"/favicon.ico", of_type("image/svg+xml", views::status_icon)},
      {"/status.js", of_type("text/javascript; charset=utf-8", views::status_js)},
      {"/readyz",
       [this](std::string_view) {
         const auto now = std::chrono::floor<std::chrono::seconds>(process_sources().clock.wall());
         return state::readyz(phase_, snapshot(), std::chrono::sys_seconds(now));
       }},
      {"/metrics", [this](std::string_view) {
         return admin::HttpResponse{.body = views::exposition(version_, state::process_statistics(),
                                                              log::counts(), snapshot()),
                                    .content_type = metrics::kContentType};
       }}};
}

// ---- for the main thread ---------------------------------------------------------------------

void Control::block_signals() {
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  for (const int signal : kNotOurs) (void)std::signal(signal, SIG_IGN);
}

Control::~Control() {
  stop();
}

ListenFault Control::open(const net::Endpoint& admin, const std::vector<std::string>& names) {
  return pulse_.open(admin, names, {.io = &io_, .pages = pages()});
}

void Control::serve(net::Server& server, id_store::Store& store, Reload& reload) {
  on_thread(io_, [&] {
    server_ = &server;
    store_ = &store;
    reload_ = &reload;
    rules_ = reload.in_force().rules;
  });
}

void Control::announce() {
  asio::post(io_, [this] {
    pulse_.watch(*server_);
    if (phase_ == state::Phase::draining) return;
    phase_ = state::Phase::serving;
    const state::RuleLists lists =
        state::lists_of(rules_.set->rules(), state::reasons_of(*rules_.set));
    log::event(log::Level::info, "ready",
               lists.not_ready.empty() ? "ready" : "ready, but some rules give no values",
               {{"rules", rules_.set->rules().size()},
                {"rules_ready", lists.ready},
                {"rules_not_ready", lists.not_ready}});
    tell_readiness();
    notify("READY=1");
    tell_status(true);
    if (std::exchange(reload_wanted_, false)) asio::post(io_, [this] { reload(); });
  });
}

/// For all who have asked this listener until now, unless none of them waits any more.
void Control::make_status(const std::string& listener) {
  std::shared_ptr<Awaited> asked;
  {
    const std::scoped_lock lock(awaited_mutex_);
    asked = std::exchange(awaited_[listener], {}).lock();
  }
  if (asked == nullptr) return;
  try {
    const state::StatusQuery all{.rules = state::StatusQuery::Rules::all};
    asked->maker.set_value(std::make_shared<const Buffer>(bson_of(status(all, listener))));
  } catch (...) {
    asked->maker.set_exception(std::current_exception());
  }
}

rewrite::StatusDocument Control::have_status_made(const std::string& listener) {
  const std::scoped_lock lock(awaited_mutex_);
  auto asked = awaited_[listener].lock();
  if (asked == nullptr) {
    asked = std::make_shared<Awaited>();
    awaited_[listener] = asked;
    asio::post(io_, [this, listener] { make_status(listener); });
  }
  return [asked]() -> std::shared_ptr<const Buffer> {
    return asked->made.wait_for(0s) == std::future_status::ready ? asked->made.get() : nullptr;
  };
}

void Control::finished() {
  on_thread(io_, [this] {
    phase_ = state::Phase::draining;
    pulse_.ignore();
    last_ = snapshot();
    refusals_.finish(*rules_.set, monotonic_now());
  });
}

}  // namespace idproxy::app::serve
