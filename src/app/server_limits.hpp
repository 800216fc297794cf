#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/net/server_statistics.hpp"
#include "idproxy/rewrite/rules.hpp"

namespace idproxy::app {

/// Returns the features of a rule that a server of this maxWireVersion does not support, as parts
/// of a sentence; empty: it supports all, or the version is unknown (0). Source:
/// docs/server-behaviour.md#servers-before-60.
[[nodiscard]] std::vector<std::string_view> limits_of(const rewrite::Rule& rule,
                                                      std::int32_t wire_version);

/// The same in one line, "with MongoDB 4.4: …; …"; empty: nothing.
[[nodiscard]] std::string note_on_limits(const rewrite::Rule& rule, std::int32_t wire_version);

/// The least maxWireVersion of the servers; 0: none has said its own.
template <class Server>
[[nodiscard]] std::int32_t oldest_of(const std::vector<Server>& servers) {
  std::int32_t oldest = 0;
  for (const Server& each : servers) {
    if (each.wire_version > 0 && (oldest == 0 || each.wire_version < oldest)) {
      oldest = each.wire_version;
    }
  }
  return oldest;
}

/// Logs the release of each server (server_release), and once for each server and limit which rules
/// it concerns (server_limit). One thread.
class ServerLimitsLog {
 public:
  void look(const std::vector<rewrite::Rule>& rules,
            const std::vector<net::ServerStatistics::Listener>& servers);

 private:
  std::map<std::string, std::int32_t> reported_;  // maxWireVersions by the servers' names
};

}  // namespace idproxy::app
