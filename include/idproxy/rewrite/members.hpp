#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/hello_reply.hpp"

namespace idproxy::rewrite {

using ServerId = std::uint32_t;

/// A server that has a listener in the proxy.
struct ServerDescription {
  enum class Origin { uri, member };

  ServerId id = 0;
  Origin origin = Origin::uri;
  std::string name;        ///< "host:port" to connect to, in lower case, or a socket's path
  std::string listener;    ///< the listener's address for clients: "127.0.0.1:27117"
  std::string set_name;    ///< name of its replica set, if known
  HelloReply said;         ///< its last reply; state unknown: none yet
  std::string known_as;    ///< the last `me` in its replies that was not empty
  bool ambiguous = false;  ///< several members answer at its name, as with a service
  /// Its name in its set, if that is another one; only for hosts of the connection string.
  std::string alias;
};

/// Maps the members of the servers' replica sets to listeners, at one moment. Immutable, so that
/// any thread may read it. Comparisons of names ignore case.
class Members {
 public:
  Members() = default;
  explicit Members(std::vector<ServerDescription> servers);

  /// The address to tell clients instead of `member` ("host:port"); nothing if the member has no
  /// listener. A listener's own address maps to itself.
  [[nodiscard]] std::optional<std::string_view> listener_of(std::string_view member) const;

  /// True if Topology has already taken exactly this reply of the server into account.
  [[nodiscard]] bool agrees(ServerId server, const HelloReply& reply) const;

  [[nodiscard]] const std::vector<ServerDescription>& servers() const { return servers_; }
  /// Null if the server has no listener any more.
  [[nodiscard]] const ServerDescription* find(ServerId server) const;

 private:
  std::vector<ServerDescription> servers_;
  std::map<std::string, std::string, std::less<>> listeners_;  // by member, in lower case
};

}  // namespace idproxy::rewrite
