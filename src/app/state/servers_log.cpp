#include "app/state/servers_log.hpp"

#include <algorithm>
#include <chrono>

#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace {

using Age = std::optional<std::chrono::nanoseconds>;

std::int64_t in_whole_seconds(std::chrono::nanoseconds time) {
  return std::chrono::floor<std::chrono::seconds>(time).count();
}

}  // namespace

bool is_slow(const net::ServerStatistics::Listener& server) {
  return server.oldest >= Age(kSlow) || (server.up && server.asked >= Age(kNoHello));
}

std::string slow_text(const net::ServerStatistics::Listener& server) {
  return server.oldest >= Age(kSlow)
             ? "has not answered a request for " + seconds_text(*server.oldest)
             : "has not answered hello for " + seconds_text(*server.asked);
}

void ServersLog::update(const std::vector<net::ServerStatistics::Listener>& servers) {
  look_at_primary(servers);
  for (const auto& server : servers) {
    const auto before = slow_.find(server.server);
    if (is_slow(server)) {
      const auto age = std::max(server.oldest, server.asked).value();
      if (before == slow_.end()) {
        log::event(log::Level::warning, "server_slow",
                   "the server has not answered for seconds: its clients wait; look at "
                   "the server, db.currentOp() shows what it does",
                   {{"server", server.server},
                    {"listener", server.listener},
                    {"oldest_seconds", in_whole_seconds(age)},
                    {"in_flight", server.in_flight}});
      }
      slow_[server.server] = age;
    } else if (before != slow_.end() && server.up) {
      log::event(log::Level::info, "server_answers", "the server has answered",
                 {{"server", server.server},
                  {"oldest_seconds", in_whole_seconds(before->second)},
                  {"in_flight", server.in_flight}});
      slow_.erase(before);
    }
  }
  std::erase_if(slow_, [&](const auto& each) {
    return std::ranges::find(servers, each.first, &net::ServerStatistics::Listener::server) ==
           servers.end();
  });
}

void ServersLog::look_at_primary(const std::vector<net::ServerStatistics::Listener>& servers) {
  const auto found = std::ranges::find(servers, "PRIMARY", &net::ServerStatistics::Listener::state);
  if (found == servers.end() || found->server == primary_) return;
  if (!primary_.empty()) {
    log::event(log::Level::info, "primary_changed", "the replica set has another primary",
               {{"from", primary_}, {"to", found->server}, {"listener", found->listener}});
  }
  primary_ = found->server;
}

}  // namespace idproxy::app::state
