#pragma once

#include <memory>
#include <string>
#include <vector>

#include "idproxy/rewrite/members.hpp"

namespace idproxy::rewrite {

/// Decides which servers need a listener, from their replies to hello. It opens no listeners: the
/// caller does, and asks missing() and superfluous() after each event.
///
/// A host of the connection string that no set lists as a member is taken for the member that it
/// calls itself (`me`), so that an address in the connection string and a host name in the set are
/// recognised as one server. Among the servers of a set, the primary's list of members counts, or
/// of several primaries the one with the greatest (electionId, setVersion), as in drivers (Server
/// Discovery And Monitoring specification). Without a primary, the list with the greatest
/// setVersion counts. Only a primary's list removes listeners, and never those of hosts of the
/// connection string. Not thread-safe.
class Topology {
 public:
  /// The most members that get a listener, over all sets and besides the hosts of the connection
  /// string: as many as one set can have (MongoDB manual, "MongoDB Limits and Thresholds").
  static constexpr std::size_t kMostMembers = 50;

  /// Event: a listener for a server has been opened. `name` ("host:port") and `listener` as in
  /// ServerDescription; `set_name`: the set that the server belongs to, empty if unknown.
  ServerId add(std::string name, std::string listener, ServerDescription::Origin origin,
               std::string set_name = {});
  /// Event: the server's listener has been closed.
  void remove(ServerId server);
  /// Event: the server has sent a reply to hello, whose state must not be unknown. Ignored if the
  /// server has been removed, or has sent a later reply already (topologyVersion).
  void heard(ServerId server, HelloReply reply);
  /// Event: connections to the server break, or it cannot be reached. It no longer counts as a
  /// primary until it is heard again.
  void lost(ServerId server);
  /// Event: the server has been unreachable for so long that another one may have taken over its
  /// address.
  void forget(ServerId server);

  /// A member that needs a listener.
  struct Missing {
    std::string member;
    std::string set_name;
    bool possible;  ///< false: not a "host:port", or kMostMembers are reached
  };
  /// In the order of hosts, passives and arbiters in each set's list.
  [[nodiscard]] std::vector<Missing> missing() const;
  /// The servers whose listeners should be closed: they have left their set, or turned out to have
  /// another listener.
  [[nodiscard]] std::vector<ServerId> superfluous() const;

  [[nodiscard]] const std::vector<ServerDescription>& servers() const { return servers_; }
  [[nodiscard]] const ServerDescription* find(ServerId server) const;
  [[nodiscard]] std::shared_ptr<const Members> members() const;

 private:
  [[nodiscard]] ServerDescription* known(ServerId server);
  void rename_set(ServerDescription& member, const std::string& name);
  void outdate(ServerDescription& primary);
  [[nodiscard]] std::vector<const ServerDescription*> authorities() const;
  [[nodiscard]] const ServerDescription* server_of(const std::string& member) const;
  [[nodiscard]] bool is_superfluous(const ServerDescription& server,
                                    const std::vector<const ServerDescription*>& authorities) const;
  void find_aliases();

  std::vector<ServerDescription> servers_;  // those of the connection string come first
  ServerId last_id_ = 0;
};

}  // namespace idproxy::rewrite
