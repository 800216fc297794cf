#include "idproxy/base/finding.hpp"

#include "idproxy/base/printable.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy {

Finding server_unreachable(const std::string& server, std::string_view reason) {
  return {finding::kServerUnreachable,
          server,
          {"server " + server + " cannot be reached: " + std::string(reason)},
          {"see whether mongod runs there and a firewall lets this host in"}};
}

std::string fault_of_set(const std::string& found, const std::string& expected,
                         const std::string& uri_key) {
  return "is a member of " +
         (found.empty() ? "no replica set" : "the replica set " + named(found)) + ", but " +
         uri_key + " has replicaSet=" + expected + ": " + remedy_for_set(found);
}

Finding set_name_differs(const std::string& server, const std::string& fault) {
  return {finding::kSetNameDiffers,
          server,
          {"server " + server + ": " + fault},
          {"correct upstream.uri"}};
}

Finding store_down(const std::string& why) {
  return {
      finding::kStoreDown,
      {},
      {"the id store " + (why.empty() ? "does not answer" : why)},
      {"counters give out the numbers that they hold, and then none: see that id_store.uri leads "
       "to servers with a primary"}};
}

}  // namespace idproxy
