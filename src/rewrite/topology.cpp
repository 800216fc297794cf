#include "idproxy/rewrite/topology.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "idproxy/base/server_address.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::rewrite {
namespace {

using Origin = ServerDescription::Origin;
using State = HelloReply::State;

bool is_primary(const ServerDescription& server) {
  return server.said.state == State::primary;
}

bool lists(const HelloReply& reply, std::string_view member) {
  return std::ranges::find(reply.members, member) != reply.members.end();
}

bool more_recent(const ServerDescription& a, const ServerDescription& b) {
  const auto rank = [](const ServerDescription& server) {
    // Only a primary knows the election for sure.
    const bool primary = is_primary(server);
    return std::tuple(primary, primary ? std::string_view(server.said.election_id) : "",
                      server.said.set_version);
  };
  return rank(a) > rank(b);
}

/// True for "host:port" and "[v6]:port" without characters that make no sense in a lookup or in the
/// log.
bool is_address(const std::string& member) {
  constexpr std::size_t kLongestAddress = 253 + 8;  // name (RFC 1035), brackets, colon, port
  const auto parts = split_host_port(member);
  if (!parts || parts->port == 0 || parts->host.empty() || member.size() > kLongestAddress)
    return false;
  const std::string_view odd = parts->bracketed ? "/@,[]" : "/@,[]:";
  const auto is_odd = [odd](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == 0x7f || odd.find(c) != odd.npos;
  };
  return std::ranges::none_of(parts->host, is_odd) &&
         (!parts->bracketed || parts->host.find(':') != std::string::npos);
}

}  // namespace

ServerId Topology::add(std::string name, std::string listener, Origin origin,
                       std::string set_name) {
  ServerDescription server;
  server.id = ++last_id_;
  server.origin = origin;
  server.name = std::move(name);
  server.listener = std::move(listener);
  server.set_name = std::move(set_name);
  servers_.push_back(std::move(server));
  return last_id_;
}

void Topology::remove(ServerId server) {
  std::erase_if(servers_, [&](const ServerDescription& each) { return each.id == server; });
  find_aliases();
}

void Topology::heard(ServerId server, HelloReply reply) {
  ServerDescription* const found = known(server);
  if (found == nullptr) return;
  // This reply is older than the last one, which overtook it on another connection.
  const HelloReply& last = found->said;
  if (reply.process_id == last.process_id && reply.counter < last.counter) return;
  if (!reply.set_name.empty()) rename_set(*found, reply.set_name);
  // A member that is starting does not know its own name yet.
  if (!reply.me.empty()) {
    // A member that was renamed would no longer be listed under its old name.
    const bool another = reply.me != found->known_as;
    if (another && lists(reply, found->known_as) && lists(reply, reply.me)) {
      found->ambiguous = true;
    }
    found->known_as = reply.me;
  } else if (reply.state == State::standalone) {
    found->known_as.clear();  // another server has the address now
  }
  found->said = std::move(reply);
  if (is_primary(*found)) outdate(*found);
  find_aliases();
}

/// A primary of an earlier election is none any more, though it may not be able to say so, or not
/// know it yet: as in drivers.
void Topology::outdate(ServerDescription& primary) {
  for (ServerDescription& each : servers_) {
    const bool are_rivals =
        each.id != primary.id && is_primary(each) && each.said.set_name == primary.said.set_name;
    if (!are_rivals || each.said.election_id == primary.said.election_id) continue;
    const bool is_earlier = each.said.election_id < primary.said.election_id;
    (is_earlier ? each : primary).said.state = State::other;
  }
}

/// If a member's set has another name now, renames it for members that have not been heard yet,
/// too.
void Topology::rename_set(ServerDescription& member, const std::string& name) {
  const std::string before = std::exchange(member.set_name, name);
  if (before.empty() || before == name) return;
  for (ServerDescription& each : servers_) {
    if (each.set_name == before && each.said.state == State::unknown) each.set_name = name;
  }
}

void Topology::lost(ServerId server) {
  ServerDescription* const found = known(server);
  if (found == nullptr || !is_primary(*found)) return;
  found->said.state = State::other;
  find_aliases();
}

void Topology::forget(ServerId server) {
  ServerDescription* const found = known(server);
  if (found == nullptr) return;
  found->said = {};
  found->known_as.clear();
  find_aliases();
}

ServerDescription* Topology::known(ServerId server) {
  const auto found = std::ranges::find(servers_, server, &ServerDescription::id);
  return found == servers_.end() ? nullptr : &*found;
}

const ServerDescription* Topology::find(ServerId server) const {
  const auto found = std::ranges::find(servers_, server, &ServerDescription::id);
  return found == servers_.end() ? nullptr : &*found;
}

/// A server whose name a set lists is that member, whatever its replies say.
void Topology::find_aliases() {
  const auto sets = authorities();
  for (ServerDescription& server : servers_) {
    const auto has_it = [&](const ServerDescription* authority) {
      return lists(authority->said, server.name);
    };
    const bool listed = std::ranges::any_of(sets, has_it);
    const bool other = server.origin == Origin::uri && !server.ambiguous && !listed;
    server.alias = other ? server.known_as : "";
  }
}

/// For each set, the server whose list counts.
std::vector<const ServerDescription*> Topology::authorities() const {
  std::vector<const ServerDescription*> result;
  for (const ServerDescription& server : servers_) {
    if (server.said.set_name.empty()) continue;
    const auto same_set = [&](const ServerDescription* other) {
      return other->said.set_name == server.said.set_name;
    };
    const auto known = std::ranges::find_if(result, same_set);
    if (known == result.end()) {
      result.push_back(&server);
    } else if (more_recent(server, **known)) {
      *known = &server;
    }
  }
  return result;
}

/// The server that stands for `member`, by the same precedence as in Members.
const ServerDescription* Topology::server_of(const std::string& member) const {
  const auto first = [&](auto is_it) {
    const auto found = std::ranges::find_if(servers_, is_it);
    return found == servers_.end() ? nullptr : &*found;
  };
  const auto host = first([&](const ServerDescription& server) {
    return server.origin == Origin::uri && server.name == member;
  });
  if (host != nullptr) return host;
  const auto called =
      first([&](const ServerDescription& server) { return server.alias == member; });
  if (called != nullptr) return called;
  return first([&](const ServerDescription& server) { return server.name == member; });
}

std::vector<Topology::Missing> Topology::missing() const {
  std::vector<Missing> result;
  const auto members = std::ranges::count(servers_, Origin::member, &ServerDescription::origin);
  auto places = kMostMembers - std::min(kMostMembers, static_cast<std::size_t>(members));
  for (const ServerDescription* authority : authorities()) {
    for (const std::string& member : authority->said.members) {
      const auto is_listener = [&](const ServerDescription& server) {
        return ascii_lower(server.listener) == member;
      };
      if (server_of(member) != nullptr) continue;
      if (std::ranges::any_of(servers_, is_listener)) continue;
      if (std::ranges::find(result, member, &Missing::member) != result.end()) continue;
      const bool possible = places > 0 && is_address(member);
      if (possible) --places;
      result.push_back({member, authority->said.set_name, possible});
    }
  }
  return result;
}

std::vector<ServerId> Topology::superfluous() const {
  std::vector<ServerId> result;
  const auto sets = authorities();
  for (const ServerDescription& server : servers_) {
    if (is_superfluous(server, sets)) result.push_back(server.id);
  }
  return result;
}

bool Topology::is_superfluous(const ServerDescription& server,
                              const std::vector<const ServerDescription*>& authorities) const {
  if (server.origin == Origin::uri) return false;
  if (server_of(server.name) != &server) return true;
  bool outlived = false;  // a primary of its set does not list it
  for (const ServerDescription* authority : authorities) {
    if (lists(authority->said, server.name)) return false;
    const bool same_set = authority->said.set_name == server.set_name;
    outlived = outlived || (same_set && is_primary(*authority));
  }
  return outlived;
}

std::shared_ptr<const Members> Topology::members() const {
  return std::make_shared<const Members>(servers_);
}

}  // namespace idproxy::rewrite
