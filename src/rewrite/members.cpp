#include "idproxy/rewrite/members.hpp"

#include <algorithm>

#include "idproxy/base/words.hpp"

namespace idproxy::rewrite {
Members::Members(std::vector<ServerDescription> servers) : servers_(std::move(servers)) {
  // The first listener to take a name keeps it. Hosts of the connection string come before members.
  for (const ServerDescription& server : servers_) {
    listeners_.emplace(ascii_lower(server.listener), server.listener);
  }
  for (const ServerDescription& server : servers_) {
    if (server.origin == ServerDescription::Origin::uri)
      listeners_.emplace(server.name, server.listener);
  }
  for (const ServerDescription& server : servers_) {
    if (!server.alias.empty()) listeners_.emplace(server.alias, server.listener);
  }
  for (const ServerDescription& server : servers_) listeners_.emplace(server.name, server.listener);
}

std::optional<std::string_view> Members::listener_of(std::string_view member) const {
  const auto found = listeners_.find(ascii_lower(member));
  if (found == listeners_.end()) return std::nullopt;
  return found->second;
}

bool Members::agrees(ServerId server, const HelloReply& reply) const {
  const ServerDescription* known = find(server);
  return known != nullptr && known->said == reply;
}

const ServerDescription* Members::find(ServerId server) const {
  const auto found = std::ranges::find(servers_, server, &ServerDescription::id);
  return found == servers_.end() ? nullptr : &*found;
}

}  // namespace idproxy::rewrite
