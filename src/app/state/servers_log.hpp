#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "idproxy/base/finding.hpp"
#include "idproxy/net/server_statistics.hpp"
#include "idproxy/rewrite/rule.hpp"

namespace idproxy::app::state {

/// A server that has let a request wait for so long is slow: a person has noticed by then, and few
/// commands take that long.
inline constexpr std::chrono::seconds kSlow{5};

/// A server answers hello without a lock: one that the proxy itself waits for so long is frozen.
inline constexpr std::chrono::seconds kNoHello{2};

/// True if the server has let a request wait for kSlow, or, though it can be reached, the proxy's
/// hello for kNoHello.
[[nodiscard]] bool is_slow(const net::ServerStatistics::Listener& server);
/// "has not answered a request for 5.2 s". `server` is slow.
[[nodiscard]] std::string slow_text(const net::ServerStatistics::Listener& server);
/// The same with the remedy.
[[nodiscard]] Finding server_slow(const net::ServerStatistics::Listener& server,
                                  const std::vector<rewrite::Rule>& rules);
/// `oldest`: of a client's requests, in seconds, as the status has it.
[[nodiscard]] inline bool is_slow(std::optional<double> oldest) {
  return oldest && *oldest >= kSlow.count();
}

/// Logs once for each change which server is the primary (primary_changed), which one does not
/// answer (server_slow) and which one does so again (server_answers). One thread.
class ServersLog {
 public:
  /// To be called about once a second.
  void update(const std::vector<net::ServerStatistics::Listener>& servers,
              const std::vector<rewrite::Rule>& rules);

 private:
  void look_at_primary(const std::vector<net::ServerStatistics::Listener>& servers);

  std::map<std::string, std::chrono::nanoseconds> slow_;  // servers, and how old the request was
  std::string primary_;                                   // the last one; empty: none yet
};

}  // namespace idproxy::app::state
