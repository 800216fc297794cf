#include "app/srv_lookup.hpp"

#include <mongoc/mongoc.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <boost/system/result.hpp>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "idproxy/config/seed_list.hpp"
#include "idproxy/observability/log.hpp"

namespace idproxy::app {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kFirstPause = 50ms;
constexpr Milliseconds kLongestPause = 2s;
constexpr std::chrono::minutes kLogAgain{1};  // pause before logging the same reason again

template <auto kDestroy>
struct Destroyer {
  void operator()(auto* object) const { kDestroy(object); }
};
using Uri = std::unique_ptr<mongoc_uri_t, Destroyer<mongoc_uri_destroy>>;
using Client = std::unique_ptr<mongoc_client_t, Destroyer<mongoc_client_destroy>>;

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

/// Logs failures: when the reason changes, and from time to time.
class FailureLog {
 public:
  void failed(const std::string& reason) {
    const auto now = std::chrono::steady_clock::now();
    if (reason == reason_ && now - last_ < kLogAgain) return;
    log::event(log::Level::warning, "srv_lookup_failed",
               "cannot look up the servers of upstream.uri; trying again", {{"reason", reason}});
    reason_ = reason;
    last_ = now;
  }

 private:
  std::string reason_;
  std::chrono::steady_clock::time_point last_;
};

/// A random time between half of `pause` and all of it.
Milliseconds with_jitter(Milliseconds pause, RandomSource& random) {
  const Milliseconds half = pause / 2;
  return half + Milliseconds(uniform(random, static_cast<std::uint64_t>(half.count()) + 1));
}

}  // namespace

boost::system::result<std::string, std::string> find_seed_list(const std::string& srv_uri) {
  using SeedListUri = boost::system::result<std::string, std::string>;
  mongoc_init();
  const auto seeds = look_up(srv_uri);
  if (!seeds) return SeedListUri(boost::system::in_place_error, seeds.error());
  return SeedListUri(boost::system::in_place_value, config::with_seed_list(srv_uri, *seeds));
}

std::string await_seed_list(const std::string& srv_uri, RandomSource& random) {
  FailureLog log;
  for (Milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    // Keep systemd from ending a start that waits for the DNS.
    ::sd_notify(0, "EXTEND_TIMEOUT_USEC=90000000");
    auto seeds = find_seed_list(srv_uri);
    if (seeds) return *std::move(seeds);
    log.failed(seeds.error());
    std::this_thread::sleep_for(with_jitter(pause, random));
  }
}

}  // namespace idproxy::app
