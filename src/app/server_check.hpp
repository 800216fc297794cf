#pragma once

#include <string>
#include <vector>

#include "idproxy/id_store/server_hello.hpp"

namespace idproxy::app {

/// The servers of a connection string, as they describe themselves.
struct ServerCheck {
  struct Server {
    std::string address;
    std::string state;    ///< "primary", "standalone" …; empty: it does not answer
    std::string version;  ///< "MongoDB 6.0.5", or "MongoDB 6.0" if it says no more; or empty
  };
  std::vector<Server> servers;  ///< those of the string, and further members of their set
  std::string fault;            ///< what is wrong with them; empty: one can be used
};

/// Sends hello to the servers of `uri`, which config has checked, without logging in. `each`: what
/// its servers said of themselves. Blocks for a few seconds at most.
[[nodiscard]] ServerCheck ask_servers(const std::string& uri,
                                      const std::vector<id_store::ServerHello>& each);

/// Returns the error if an id store with a connection string of its own (in `uri_key`) is not in
/// the servers of upstream.uri. Empty: it is, or no server answers.
[[nodiscard]] std::string store_fault(const std::vector<id_store::ServerHello>& upstream,
                                      const std::vector<id_store::ServerHello>& store,
                                      const std::string& uri_key);

}  // namespace idproxy::app
