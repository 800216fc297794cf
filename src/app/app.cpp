#include "idproxy/app/app.hpp"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "idproxy/config/config.hpp"
#include "idproxy/id_store/store.hpp"
#include "idproxy/net/server.hpp"
#include "idproxy/observability/log.hpp"
#include "srv_lookup.hpp"

namespace idproxy::app {
namespace {

class SystemClock final : public Clock {
 public:
  std::chrono::nanoseconds wall() const override {
    return std::chrono::system_clock::now().time_since_epoch();
  }
  std::chrono::nanoseconds monotonic() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};
const SystemClock kClock;

// How long to wait for the id store: with the first client, and at the end.
constexpr std::chrono::seconds kFirstLook{1};
constexpr std::chrono::seconds kLastWords{2};

std::optional<std::string> read_file(const std::string& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  std::error_code ignored;
  const bool directory = std::filesystem::is_directory(file, ignored);  // opens, but has no bytes
  if (in && !directory) text << in.rdbuf();
  if (in && !directory && !text.bad()) return text.str();
  const int cause = directory ? EISDIR : errno != 0 ? errno : EIO;
  std::cerr << "mongo-idproxy: cannot read " << file << ": " << std::strerror(cause) << '\n';
  return std::nullopt;
}

void print(std::ostream& out, const std::string& file, const config::Loaded& loaded) {
  for (const config::Finding& finding : loaded.findings) {
    out << config::format(file, finding) << '\n';
  }
}

/// But for those that `before` has too.
void log_findings(const std::string& file, const config::Loaded& loaded,
                  const std::set<std::string>& before = {}) {
  for (const config::Finding& finding : loaded.findings) {
    const bool is_error = finding.severity == config::Finding::Severity::error;
    const std::string text = config::format(file, finding);
    if (before.contains(text)) continue;
    log::event(is_error ? log::Level::error : log::Level::warning,
               is_error ? "config_error" : "config_warning", text);
  }
}

/// With the servers of a mongodb+srv string, which the first reading does not know.
config::Loaded with_servers(const std::string& file, const std::string& text,
                            config::Loaded loaded) {
  if (loaded.config.srv_uri.empty()) return loaded;
  std::set<std::string> logged;
  for (const config::Finding& finding : loaded.findings) {
    logged.insert(config::format(file, finding));
  }
  const std::string seed_list = await_seed_list(loaded.config.srv_uri, system_random());
  loaded = config::parse(text, {kClock, system_random()}, seed_list);
  log_findings(file, loaded, logged);
  return loaded;
}

ExitCode exit_code_for(const std::string& error) {
  return error.find("Permission denied") != std::string::npos ? ExitCode::no_permission
                                                              : ExitCode::unavailable;
}

std::vector<id_store::Watched> watched(const std::vector<rewrite::Rule>& rules) {
  std::vector<id_store::Watched> result;
  result.reserve(rules.size());
  for (const rewrite::Rule& rule : rules) {
    result.push_back({rule.ns, rule.field, rule.unique_index, rule.strategy->counts_documents()});
  }
  return result;
}

void log_stopped(const net::Server& server, const id_store::Counters& store) {
  using rewrite::RuleOutcomes;
  const net::Counters& counters = server.counters();
  const auto sum = [&](RuleOutcomes::Counter RuleOutcomes::* counter) {
    return server.outcomes().sum(counter);
  };
  log::event(log::Level::info, "stopped", "stopped",
             {{"connections", counters.connections.load()},
              {"inserts_assigned", counters.inserts_assigned.load()},
              {"values_assigned", sum(&RuleOutcomes::assigned)},
              {"documents_refused", counters.documents_refused.load()},
              {"commands_failed", counters.commands_failed.load()},
              {"duplicates_resent", sum(&RuleOutcomes::resent)},
              {"duplicates_cured", sum(&RuleOutcomes::cured)},
              {"duplicates_given_up", sum(&RuleOutcomes::given_up)},
              {"duplicates_foreign", sum(&RuleOutcomes::foreign)},
              {"transactions_transient", sum(&RuleOutcomes::transient)},
              {"transactions_surfaced", sum(&RuleOutcomes::surfaced)},
              {"unacknowledged", sum(&RuleOutcomes::unacknowledged)},
              {"store_round_trips", store.round_trips.load()},
              {"store_blocks", store.blocks.load()},
              {"store_blocks_dropped", store.blocks_dropped.load()},
              {"store_numbers_allocated", store.numbers_allocated.load()},
              {"store_numbers_returned", store.numbers_returned.load()},
              {"store_heals", store.heals.load()}});
}

/// Ends the process without waiting for a thread of the store, which waits for a server.
[[noreturn]] void leave(ExitCode code) {
  log::event(log::Level::warning, "store_hangs",
             "the id store has not answered in time; numbers that it was to take back are lost");
  std::_Exit(static_cast<int>(code));
}

}  // namespace

ExitCode check_config(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return ExitCode::no_permission;
  const config::Loaded loaded = config::parse(*text, {kClock, system_random()});
  print(std::cout, file, loaded);
  if (!loaded.ok()) return ExitCode::config;
  std::cout << file << ": ok, " << loaded.config.rules.size() << " rules\n";
  return ExitCode::ok;
}

ExitCode serve(const std::string& file, const std::string& version) {
  const auto text = read_file(file);
  if (!text) return ExitCode::no_permission;
  config::Loaded loaded = config::parse(*text, {kClock, system_random()});
  if (!loaded.ok()) {
    print(std::cerr, file, loaded);
    return ExitCode::config;
  }
  log::start(loaded.config.log);
  log_findings(file, loaded);
  loaded = with_servers(file, *text, std::move(loaded));
  if (!loaded.ok()) return ExitCode::config;
  loaded.config.net.version = version;
  const auto routes = loaded.config.net.routes;
  id_store::Options store_options = std::move(loaded.config.id_store);
  store_options.rules = watched(loaded.config.rules);
  const std::string store_db = store_options.db;
  auto store = std::make_unique<id_store::Store>(std::move(store_options), kClock);
  const auto rules = std::make_shared<const rewrite::RuleSet>(std::move(loaded.config.rules),
                                                              store_db, store.get());
  auto server = net::Server::open(std::move(loaded.config.net), rules, kClock);
  if (!server) {
    log::event(log::Level::error, "cannot_listen", server.error());
    if (!store->stop(kLastWords)) leave(exit_code_for(server.error()));
    return exit_code_for(server.error());
  }
  const auto listening = (*server)->listening();
  for (std::size_t i = 0; i < listening.size(); ++i) {
    log::event(log::Level::info, "listening", "listening",
               {{"address", listening[i].text()}, {"server", routes[i].upstream.text()}});
  }
  // Clients may connect by now, and wait: so that the first insert into a view is none of ours.
  store->await_first_look(kFirstLook);
  log::event(log::Level::info, "ready", "ready", {{"rules", rules->rules().size()}});
  ::sd_notify(0, "READY=1");
  (*server)->run();
  ::sd_notify(0, "STOPPING=1");
  const bool ended = store->stop(kLastWords);
  log_stopped(**server, store->counters());
  if (!ended) leave(ExitCode::ok);
  return ExitCode::ok;
}

}  // namespace idproxy::app
