#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/members.hpp"

namespace idproxy::rewrite {

/// Decides which servers need a listener, from what they say in their replies to hello. Opens
/// nothing itself: whoever listens asks missing() and superfluous() after each event.
///
/// A host of the connection string whose name no member has stands for the one that it says to be
/// (`me`), so that addresses in the connection string and host names in the set are one server. Of
/// the servers of one set, a primary's list counts, the one with the largest (electionId,
/// setVersion), as drivers have it (Server Discovery And Monitoring specification); without a
/// primary, the one with the largest setVersion. A listener is taken away by a primary's list only,
/// and never one that the connection string names. Not thread-safe.
class Topology {
 public:
  /// A set has no more (MongoDB manual, "MongoDB Limits and Thresholds"), so nor do we believe in
  /// more.
  static constexpr std::size_t kMostMembers = 50;

  /// Event: a listener is open for a server. `name` ("host:port") and `listener` as in
  /// ServerDescription; `set_name`: whose member it is, empty if that is not known.
  ServerId add(std::string name, std::string listener, ServerDescription::Origin origin,
               std::string set_name = {});
  /// Event: it is closed.
  void remove(ServerId server);
  /// Event: a reply to hello, one whose state is known. Ignored if the server is gone, or has said
  /// something later (topologyVersion).
  void heard(ServerId server, HelloReply reply);
  /// Event: its connections break, or it cannot be reached: until it is heard again it is no
  /// primary.
  void lost(ServerId server);
  /// Event: it cannot be reached for long, so that its members may have gone elsewhere.
  void forget(ServerId server);

  /// A member without a listener.
  struct Missing {
    std::string member;
    std::string set_name;
    bool possible;  ///< false: it is no "host:port", or one too many
  };
  /// In the order of hosts, passives, arbiters.
  [[nodiscard]] std::vector<Missing> missing() const;
  /// Servers that have left their set, or that turned out to have another listener already.
  [[nodiscard]] std::vector<ServerId> superfluous() const;

  [[nodiscard]] const std::vector<ServerDescription>& servers() const { return servers_; }
  [[nodiscard]] const ServerDescription* find(ServerId server) const;
  [[nodiscard]] std::shared_ptr<const Members> members() const;

 private:
  [[nodiscard]] ServerDescription* known(ServerId server);
  void rename_set(ServerDescription& member, const std::string& name);
  [[nodiscard]] std::vector<const ServerDescription*> authorities() const;
  [[nodiscard]] const ServerDescription* server_of(const std::string& member) const;
  [[nodiscard]] bool is_superfluous(const ServerDescription& server,
                                    const std::vector<const ServerDescription*>& authorities) const;
  void find_aliases();

  std::vector<ServerDescription> servers_;  // those of the connection string first
  ServerId last_id_ = 0;
};

}  // namespace idproxy::rewrite
