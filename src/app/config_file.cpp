#include "app/config_file.hpp"

#include <mongoc/mongoc.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string_view>
#include <thread>

#include "app/apart.hpp"
#include "app/system_clock.hpp"
#include "app/systemd.hpp"
#include "idproxy/base/input_file.hpp"
#include "idproxy/base/owned.hpp"
#include "idproxy/base/printable.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/secret_file.hpp"
#include "idproxy/config/seed_list.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kFirstPause = 50ms;
constexpr Milliseconds kLongestPause = 2s;
constexpr std::chrono::minutes kLogAgain{1};  // pause before logging the same reason again

using Uri = Owned<mongoc_uri_t, mongoc_uri_destroy>;
using Client = Owned<mongoc_client_t, mongoc_client_destroy>;

/// The three options that a TXT record may set, without those that the string sets itself.
std::map<std::string, std::string> options_of(const mongoc_uri_t* found,
                                              const mongoc_uri_t* asked) {
  std::map<std::string, std::string> options;
  const auto add = [&](const char* name, const char* now, const char* before) {
    if (now != nullptr && (before == nullptr || std::string_view(now) != before)) {
      options.emplace(name, now);
    }
  };
  add(MONGOC_URI_REPLICASET, mongoc_uri_get_replica_set(found), mongoc_uri_get_replica_set(asked));
  add(MONGOC_URI_AUTHSOURCE, mongoc_uri_get_auth_source(found), mongoc_uri_get_auth_source(asked));
  if (mongoc_uri_get_option_as_bool(found, MONGOC_URI_LOADBALANCED, false)) {
    options.emplace(MONGOC_URI_LOADBALANCED, "true");
  }
  return options;
}

/// The hosts, sorted: name servers shuffle them, but each server must keep its listener's port from
/// start to start.
std::vector<std::string> hosts_of(const mongoc_uri_t* found) {
  std::vector<std::string> hosts;
  for (const auto* host = mongoc_uri_get_hosts(found); host != nullptr; host = host->next) {
    hosts.emplace_back(static_cast<const char*>(host->host_and_port));
  }
  std::ranges::sort(hosts);
  const std::int32_t most = mongoc_uri_get_option_as_int32(found, MONGOC_URI_SRVMAXHOSTS, 0);
  if (most <= 0) return hosts;
  std::vector<std::string> some;  // random ones, as the specification of srvMaxHosts requires
  std::ranges::sample(hosts, std::back_inserter(some), most, std::random_device());
  return some;
}

/// Looks the records up, or returns an error. libmongoc asks for both the SRV and the TXT record,
/// and requires all servers to be in the name's domain. It does not connect to them.
boost::system::result<config::SeedList, std::string> look_up(const std::string& srv_uri) {
  const Uri asked(mongoc_uri_new(srv_uri.c_str()));
  if (!asked) std::abort();  // checked by config
  bson_error_t error{};
  const Client client(mongoc_client_new_from_uri_with_error(asked.get(), &error));
  if (!client) return std::string(static_cast<const char*>(error.message));
  const mongoc_uri_t* found = mongoc_client_get_uri(client.get());
  return config::SeedList{hosts_of(found), options_of(found, asked.get())};
}

/// A random time between half of `pause` and all of it.
Milliseconds with_jitter(Milliseconds pause, RandomSource& random) {
  const Milliseconds half = pause / 2;
  return half + Milliseconds(uniform(random, static_cast<std::uint64_t>(half.count()) + 1));
}

/// Resolves `srv_uri`, a mongodb+srv string, by the DNS to a mongodb:// string, or returns an
/// error.
boost::system::result<std::string, std::string> find_seed_list(const std::string& srv_uri) {
  mongoc_init();
  const auto seeds = look_up(srv_uri);
  if (!seeds) return {boost::system::in_place_error, seeds.error()};
  return config::with_seed_list(srv_uri, *seeds);
}

/// The same, in time: the name service may be silent.
boost::system::result<std::string, std::string> find_seed_list(const std::string& srv_uri,
                                                               Milliseconds limit) {
  auto found = ask_apart<boost::system::result<std::string, std::string>>(
      [srv_uri] { return find_seed_list(srv_uri); });
  if (found.wait_for(limit) == std::future_status::ready) return found.get();
  return {boost::system::in_place_error,
          "the name service has not answered within " + duration_text(limit)};
}

/// Retries until it succeeds, and logs failures: when the reason changes, and from time to time.
std::string await_seed_list(const std::string& srv_uri, RandomSource& random) {
  std::string reason;
  std::chrono::steady_clock::time_point logged;
  for (Milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    // Keep systemd from ending a start that waits for the DNS.
    notify("EXTEND_TIMEOUT_USEC=90000000");
    auto seeds = find_seed_list(srv_uri);
    if (seeds) return *std::move(seeds);
    const auto now = std::chrono::steady_clock::now();
    if (seeds.error() != reason || now - logged >= kLogAgain) {
      reason = seeds.error();
      logged = now;
      log::event(log::Level::warning, "srv_lookup_failed",
                 "cannot look up the servers of upstream.uri; trying again", {{"reason", reason}});
    }
    std::this_thread::sleep_for(with_jitter(pause, random));
  }
}

}  // namespace

void tell(const std::string& text) {
  std::cerr << "mongo-idproxy: " << printable(text) << '\n';
}

ExitCode end_with(ExitCode code, const std::string& why) {
  tell(why);
  return code;
}

boost::system::result<ConfigFile, std::string> ConfigFile::read(const std::string& name,
                                                                const std::string& seed_list) {
  std::string state = state_of_file(name);
  auto text = read_file(name);
  if (!text) return "cannot read " + name + ": " + text.error();
  return ConfigFile(name, std::move(state), *std::move(text), seed_list);
}

void ConfigFile::parse(const std::string& seed_list) {
  loaded = config::parse(text, process_sources(), seed_list);
  loaded.files.emplace(name_, state_);
}

boost::system::result<ConfigFile, ExitCode> ConfigFile::open(const std::string& name) {
  auto file = read(name);
  if (file) return *std::move(file);
  return end_with(ExitCode::no_permission, file.error());
}

boost::system::result<ConfigFile, ExitCode> ConfigFile::open(const std::string& name, Print print) {
  auto file = open(name);
  if (!file) return file;
  if (print == Print::findings) file->look_at_mode();
  if (print == Print::findings || !file->loaded.ok()) file->print_findings(std::cerr);
  if (!file->loaded.ok()) return ExitCode::config;
  return file;
}

void ConfigFile::look_at_mode() {
  struct stat status{};
  if (::stat(name_.c_str(), &status) != 0 || (status.st_mode & (S_IROTH | S_IWOTH)) == 0) return;
  std::error_code error;
  const std::string secret = std::filesystem::absolute(name_, error).parent_path() / "store-uri";
  const std::string advice =
      ": contains a password, and this file is open to every user of this host: put the store's "
      "string into a file of its own, which systemd passes on with LoadCredential=store-uri:" +
      secret +
      " and Kubernetes as a Secret, and name it, id_store: {uri_file: "
      "\"${CREDENTIALS_DIRECTORY}/store-uri\"}; or write the password as a variable, ${NAME}. "
      "(chmod o-rwx is enough if the proxy's user owns the file; the systemd unit's user does "
      "not.)";
  for (const std::string& key : loaded.config.written.password_keys) {
    loaded.findings.push_back({FileFinding::Severity::warning,
                               {},
                               std::string(key).append(advice),
                               secret,
                               FileFinding::About::password});
  }
}

void ConfigFile::log_findings() {
  for (const FileFinding& finding : loaded.findings) {
    const bool is_error = finding.severity == FileFinding::Severity::error;
    const std::string line = finding.text(name_);
    if (!logged_.insert(line).second) continue;
    log::event(is_error ? log::Level::error : log::Level::warning,
               is_error ? "config_error" : "config_warning", line);
  }
}

std::vector<std::string> ConfigFile::first_findings() const {
  constexpr std::size_t kMost = 100;
  constexpr std::size_t kLongest = 1000;
  std::vector<std::string> lines;
  for (const FileFinding& finding : loaded.findings) {
    if (lines.size() < kMost) lines.push_back(cut_off(finding.text(name_), kLongest));
  }
  return lines;
}

void ConfigFile::print_findings(std::ostream& out) const {
  for (const FileFinding& finding : loaded.findings) out << printable(finding.text(name_)) << '\n';
}

boost::system::result<std::string, std::string> ConfigFile::look_up_servers(Milliseconds limit) {
  using boost::system::in_place_error;
  using boost::system::in_place_value;
  if (loaded.config.srv_uri.empty()) return {in_place_value, loaded.config.written.upstream_uri};
  auto seed_list = find_seed_list(loaded.config.srv_uri, limit);
  if (!seed_list) {
    return {in_place_error, "cannot look up the servers of upstream.uri: " + seed_list.error()};
  }
  parse(*seed_list);
  return seed_list;
}

boost::system::result<std::string, ExitCode> ConfigFile::find_servers(std::ostream& out,
                                                                      Milliseconds limit) {
  auto uri = look_up_servers(limit);
  if (!uri) {
    out << '\n' << printable(uri.error()) << '\n';
    return ExitCode::unavailable;
  }
  if (loaded.ok()) return *std::move(uri);
  print_findings(out);
  return ExitCode::config;
}

std::string ConfigFile::await_servers() {
  if (loaded.config.srv_uri.empty()) return "";
  std::string seed_list = await_seed_list(loaded.config.srv_uri, system_random());
  parse(seed_list);
  log_findings();
  return seed_list;
}

}  // namespace idproxy::app
