#pragma once

#include <string>
#include <vector>

#include "idproxy/id_store/server_hello.hpp"

namespace idproxy::app::jobs {

/// True if it has said something.
[[nodiscard]] inline bool answers(const id_store::ServerHello& server) {
  return server.fault.empty();
}
/// "a member of the replica set rs0 (db1:27017,db2:27017)"
[[nodiscard]] std::string set_of(const id_store::ServerHello& server);

/// Returns the error if an id store with a connection string of its own (in `uri_key`) is not in
/// the servers of upstream.uri. Empty: it is, or no server answers.
[[nodiscard]] std::string store_fault(const std::vector<id_store::ServerHello>& upstream,
                                      const std::vector<id_store::ServerHello>& store,
                                      const std::string& uri_key);

}  // namespace idproxy::app::jobs
