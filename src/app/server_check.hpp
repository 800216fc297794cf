#pragma once

#include <string>
#include <vector>

namespace idproxy::app {

/// What the servers of a connection string say of themselves.
struct ServerCheck {
  struct Server {
    std::string address;
    std::string state;  ///< "primary", "standalone" …; empty: it does not answer
  };
  std::vector<Server> servers;  ///< those of the string, and further members of their set
  std::string fault;            ///< why none can be reached; empty: one answers
};

/// Sends hello to the servers of `uri`, which config has checked, without logging in. Blocks for a
/// few seconds at most.
[[nodiscard]] ServerCheck ask_servers(const std::string& uri);

}  // namespace idproxy::app
