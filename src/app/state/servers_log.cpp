#include "app/state/servers_log.hpp"

#include <algorithm>
#include <chrono>

#include "idproxy/base/words.hpp"
#include "idproxy/log/log.hpp"

namespace idproxy::app::state {
namespace {

using Age = std::optional<std::chrono::nanoseconds>;

}  // namespace

bool is_slow(const net::ServerStatistics::Listener& server) {
  return server.oldest >= Age(kSlow) || (server.up && server.asked >= Age(kNoHello));
}

std::string slow_text(const net::ServerStatistics::Listener& server) {
  return server.oldest >= Age(kSlow)
             ? "has not answered a request for " + seconds_text(*server.oldest)
             : "has not answered hello for " + seconds_text(*server.asked);
}

Finding server_slow(const net::ServerStatistics::Listener& server,
                    const std::vector<rewrite::Rule>& rules) {
  Reason remedy{"see its processor, its disks, and what it does", ": ",
                Commands().mongosh("db.currentOp()")};
  const bool has_gapless = std::ranges::any_of(
      rules, [](const rewrite::Rule& rule) { return rule.strategy->about().gapless.has_value(); });
  if (has_gapless) {  // it waits for others, which is not its fault
    remedy.text +=
        "; a write with numbers without gaps waits there for the open transaction that holds its "
        "number, also through another proxy";
    remedy.commands.mongosh("db.adminCommand({currentOp: true, transaction: {$exists: true}})");
  }
  const std::string waiting = std::to_string(server.in_flight);
  return {finding::kServerSlow,
          server.server,
          {"server " + server.server + " " + slow_text(server) + ", and " + waiting +
           (server.in_flight == 1 ? " request waits" : " requests wait")},
          std::move(remedy)};
}

void ServersLog::update(const std::vector<net::ServerStatistics::Listener>& servers,
                        const std::vector<rewrite::Rule>& rules) {
  look_at_primary(servers);
  for (const auto& server : servers) {
    const auto before = slow_.find(server.server);
    if (is_slow(server)) {
      const auto age = std::max(server.oldest, server.asked).value();
      if (before == slow_.end()) {
        log::event(server_slow(server, rules), {{"server", server.server},
                                                {"listener", server.listener},
                                                {"oldest_seconds", whole_seconds(age)},
                                                {"in_flight", server.in_flight}});
      }
      slow_[server.server] = age;
    } else if (before != slow_.end() && server.up) {
      log::event(log::Level::info, "server_answers", "the server has answered",
                 {{"server", server.server},
                  {"oldest_seconds", whole_seconds(before->second)},
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
