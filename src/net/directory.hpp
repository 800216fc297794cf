#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "idproxy/net/server_statistics.hpp"
#include "idproxy/rewrite/members.hpp"
#include "net/sockets.hpp"
#include "net/upstream.hpp"

namespace idproxy::net {

/// The servers and their listeners, as Upstreams last published them. Thread-safe.
class Directory {
 public:
  using Servers = std::vector<std::shared_ptr<const Upstream>>;

  void publish(std::shared_ptr<const rewrite::Members> members, Servers servers);

  /// The mapping of members to listeners, for replies to hello.
  [[nodiscard]] std::shared_ptr<const rewrite::Members> members() const;
  /// True if a connection to this address would reach this proxy. Sets `error` if it cannot find
  /// out, for lack of descriptors.
  [[nodiscard]] bool is_own(const SocketAddress& address, error_code& error) const;
  /// The server whose listener has this port; null if there is none.
  [[nodiscard]] std::shared_ptr<const Upstream> at_port(std::uint16_t port) const;
  /// The address that clients are told of the server's listener; empty: the server has gone.
  [[nodiscard]] std::string listener_of(rewrite::ServerId server) const;
  /// For pages and metrics. `now`: monotonic.
  [[nodiscard]] std::vector<ServerStatistics::Listener> listener_statistics(
      std::chrono::nanoseconds now) const;

 private:
  struct Published {
    std::shared_ptr<const rewrite::Members> members;
    Servers servers;

    /// Null if the server has been removed.
    [[nodiscard]] const Upstream* find(rewrite::ServerId server) const;
  };
  [[nodiscard]] std::shared_ptr<const Published> published() const;

  mutable std::mutex mutex_;  // guards:
  std::shared_ptr<const Published> published_ =
      std::make_shared<Published>(Published{std::make_shared<const rewrite::Members>(), {}});
};

}  // namespace idproxy::net
