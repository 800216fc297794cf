#include "idproxy/app/app.hpp"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>

#include "idproxy/config/config.hpp"
#include "idproxy/net/server.hpp"
#include "idproxy/observability/log.hpp"

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

void log_warnings(const std::string& file, const config::Loaded& loaded) {
  for (const config::Finding& finding : loaded.findings) {
    log::event(log::Level::warning, "config_warning", config::format(file, finding));
  }
}

ExitCode exit_code_for(const std::string& error) {
  return error.find("Permission denied") != std::string::npos ? ExitCode::no_permission
                                                              : ExitCode::unavailable;
}

void log_stopped(const net::Server& server) {
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
              {"unacknowledged", sum(&RuleOutcomes::unacknowledged)}});
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

ExitCode serve(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return ExitCode::no_permission;
  config::Loaded loaded = config::parse(*text, {kClock, system_random()});
  if (!loaded.ok()) {
    print(std::cerr, file, loaded);
    return ExitCode::config;
  }
  log::start(loaded.config.log);
  log_warnings(file, loaded);
  const auto routes = loaded.config.net.routes;
  const auto rules = std::make_shared<const rewrite::RuleSet>(std::move(loaded.config.rules),
                                                              loaded.config.id_store_db);
  auto server = net::Server::open(std::move(loaded.config.net), rules, kClock);
  if (!server) {
    log::event(log::Level::error, "cannot_listen", server.error());
    return exit_code_for(server.error());
  }
  const auto listening = (*server)->listening();
  for (std::size_t i = 0; i < listening.size(); ++i) {
    log::event(log::Level::info, "listening", "listening",
               {{"address", listening[i].text()}, {"server", routes[i].upstream.text()}});
  }
  log::event(log::Level::info, "ready", "ready", {{"rules", rules->rules().size()}});
  ::sd_notify(0, "READY=1");
  (*server)->run();
  ::sd_notify(0, "STOPPING=1");
  log_stopped(**server);
  return ExitCode::ok;
}

}  // namespace idproxy::app
