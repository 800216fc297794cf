#include "idproxy/app/serve/serve.hpp"

#include <malloc.h>

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "app/config_file.hpp"
#include "app/descriptors.hpp"
#include "app/serve/control.hpp"
#include "app/serve/reload.hpp"
#include "app/state/rules_in_force.hpp"
#include "app/system_clock.hpp"
#include "app/systemd.hpp"
#include "idproxy/config/config.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/log/log.hpp"
#include "idproxy/net/server.hpp"
#include "idproxy/threads/threads.hpp"

namespace idproxy::app::serve {
namespace {

// How long to wait for the id store: before serving the first client, and at the end.
constexpr std::chrono::seconds kFirstInspection{1};
constexpr std::chrono::seconds kStoreStopTimeout{2};

/// Says so, and returns the exit code.
ExitCode cannot_listen(const ListenFault& fault, const std::string& key = {}) {
  log::event(log::Level::error, "cannot_listen", key + fault.text);
  return fault.is_forbidden ? ExitCode::no_permission : ExitCode::unavailable;
}

void log_listening(const net::Server& server, const std::vector<net::Route>& routes) {
  const auto listening = server.listening();
  for (std::size_t i = 0; i < listening.size(); ++i) {
    log::event(log::Level::info, "listening", "listening",
               {{"address", listening[i].text()}, {"server", routes[i].upstream.text()}});
  }
}

void log_stopped(const net::ServerStatistics& statistics, const rewrite::RuleSet& rules,
                 const id_store::StoreStatistics& store) {
  using net::Counted;
  using rewrite::RuleOutcomes;
  log::event(log::Level::info, "stopped", "stopped",
             {{"connections", statistics.counted[Counted::connections_accepted]},
              {"connections_cut_off", statistics.counted[Counted::closed_drain]},
              {"inserts_assigned", statistics.counted[Counted::requests_insert]},
              {"values_assigned", rules.sum(&RuleOutcomes::assigned)},
              {"values_handed_out", rules.sum(&RuleOutcomes::handed_out)},
              {"documents_refused", statistics.counted[Counted::documents_refused]},
              {"commands_failed", statistics.counted[Counted::requests_refused]},
              {"duplicates_resent", rules.sum(&RuleOutcomes::resent)},
              {"duplicates_cured", rules.sum(&RuleOutcomes::cured)},
              {"duplicates_given_up", rules.sum(&RuleOutcomes::given_up)},
              {"duplicates_foreign", rules.sum(&RuleOutcomes::foreign)},
              {"transactions_transient", rules.sum(&RuleOutcomes::transient)},
              {"transactions_surfaced", rules.sum(&RuleOutcomes::surfaced)},
              {"unacknowledged", rules.sum(&RuleOutcomes::unacknowledged)},
              {"store_round_trips", store.round_trips},
              {"store_blocks", store.blocks},
              {"store_blocks_dropped", store.blocks_dropped},
              {"store_numbers_allocated", store.numbers_allocated},
              {"store_numbers_returned", store.numbers_returned},
              {"store_heals", store.heals}});
}

/// Ends the process without waiting for a thread of the store, which waits for a server.
[[noreturn]] void leave(ExitCode code) {
  log::event(log::Level::warning, "store_hangs",
             "the id store did not answer in time; unused numbers could not be given back");
  log::finish(kLogFlushTimeout);
  std::_Exit(static_cast<int>(code));
}

/// The configured options, with those that only this process knows.
net::Options options_of(const config::Config& config, Control& control) {
  net::Options options = config.net;
  options.status = [&control](const std::string& listener) {
    return control.have_status_made(listener);
  };
  options.max_connections = permitted_connections(options);
  return options;
}

/// Calls a function at the end of a scope, also after an exception.
template <class F>
class AtEnd {
 public:
  explicit AtEnd(F f) : f_(std::move(f)) {}
  ~AtEnd() { f_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  F f_;
};

/// For those who ask the proxy which file it reads, and are in another directory.
std::string whole_path(const std::string& file) {
  std::error_code error;
  const auto path = std::filesystem::absolute(file, error);
  return error ? file : path.lexically_normal().string();
}

/// Serves until a signal ends it.
ExitCode run(Reload::Start start, Control& control) {
  id_store::Store store(start.config.id_store, process_sources().clock);
  start.rules =
      state::make_rules(std::exchange(start.config.rules, {}), start.config.id_store.db, store);
  auto opened = net::Server::open(options_of(start.config, control), start.rules.set,
                                  process_sources().clock);
  if (!opened) {
    const ExitCode code = cannot_listen(opened.error());
    if (!store.stop(kStoreStopTimeout)) leave(code);
    return code;
  }
  net::Server& server = **opened;
  log_listening(server, start.config.net.routes);
  Reload reload(std::move(start), store, server);
  // Its thread uses the objects above.
  const AtEnd stop_control([&control] { control.stop(); });
  control.serve(server, store, reload);
  // Clients can connect already, but wait: no rule must apply to an insert into a view.
  reload.in_force().rules.watch->await_first_inspection(kFirstInspection);
  server.run([&control] { control.announce(); });
  control.finished();
  const bool ended = store.stop(kStoreStopTimeout);
  log_stopped(server.statistics(), *reload.in_force().rules.set, store.statistics());
  if (!ended) leave(ExitCode::ok);
  return ExitCode::ok;
}

}  // namespace

ExitCode serve(const std::string& file, const std::string& version) {
  Control::block_signals();
  reserve_standard_descriptors();
  // Fix the threshold. By default it grows to 32 MiB with the first large message, and malloc keeps
  // the memory of blocks below it.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  auto sockets = passed_sockets();  // changes the environment: before there are other threads
  auto opened = ConfigFile::open(file, ConfigFile::Print::faults);
  if (!opened) return opened.error();
  config::Loaded& loaded = opened->loaded;
  log::start(loaded.config.log);
  threads::await();
  // Waits for a slow reader of the log, however the process ends.
  const AtEnd flush_log([] { log::finish(kLogFlushTimeout); });
  opened->look_at_mode();
  opened->log_findings();
  Control control(version);
  if (loaded.config.admin) {
    const config::Config& config = loaded.config;
    const ListenFault fault = control.open(*config.admin, config.admin_hosts);
    if (!fault.text.empty()) return cannot_listen(fault, "admin.listen: ");
  }
  if (!sockets) {
    return cannot_listen(ListenFault(sockets.error()));
  }
  std::string seed_list = opened->await_servers();
  if (!loaded.ok()) return ExitCode::config;
  loaded.config.net.sockets = *std::move(sockets);
  return run({.file = whole_path(file),
              .config = std::move(loaded.config),
              .seed_list = std::move(seed_list),
              .files = std::move(loaded.files),
              .rules = {}},
             control);
}

}  // namespace idproxy::app::serve
