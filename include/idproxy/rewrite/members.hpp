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

/// A server that has a listener here.
struct ServerDescription {
  enum class Origin { uri, member };

  ServerId id = 0;
  Origin origin = Origin::uri;
  std::string name;        ///< "host:port" that it is reached at, lower case; or a socket's path
  std::string listener;    ///< that stands for it, as clients are told: "127.0.0.1:27117"
  std::string set_name;    ///< that it belongs to, as far as is known
  HelloReply said;         ///< what it said of itself last; state unknown: nothing yet
  std::string known_as;    ///< the last `me` that it said, not empty ones
  bool ambiguous = false;  ///< its name leads to several members, as that of a service does
  /// What its set calls it, if it is another name; only for hosts of the connection string.
  std::string alias;
};

/// Which listener stands for which member of the replica sets behind us, at one moment. Immutable,
/// so that any thread may read it. Names are compared without regard to case.
class Members {
 public:
  Members() = default;
  explicit Members(std::vector<ServerDescription> servers);

  /// What clients are told instead of `member` ("host:port"); nothing if it has no listener. A
  /// listener's own name stays what it is.
  [[nodiscard]] std::optional<std::string_view> listener_of(std::string_view member) const;

  /// False if the reply says something that Topology has not taken into account yet.
  [[nodiscard]] bool agrees(ServerId server, const HelloReply& reply) const;

  [[nodiscard]] const std::vector<ServerDescription>& servers() const { return servers_; }
  /// Null if it has none any more.
  [[nodiscard]] const ServerDescription* find(ServerId server) const;

 private:
  std::vector<ServerDescription> servers_;
  std::map<std::string, std::string, std::less<>> listeners_;  // by member
};

}  // namespace idproxy::rewrite
