#include "app/jobs/store_fault.hpp"

#include <algorithm>
#include <boost/algorithm/string/join.hpp>

#include "idproxy/base/printable.hpp"

namespace idproxy::app::jobs {

using id_store::ServerHello;

std::string set_of(const ServerHello& server) {
  if (server.set_name.empty()) return "a member of no replica set";
  return "a member of the replica set " + named(server.set_name) + " (" +
         boost::algorithm::join(server.members, ",") + ")";
}

std::string store_fault(const std::vector<ServerHello>& upstream,
                        const std::vector<ServerHello>& store, const std::string& uri_key) {
  const auto its = std::ranges::find_if(store, answers);
  if (its == store.end() || std::ranges::none_of(upstream, answers)) return {};
  const bool is_there = std::ranges::any_of(upstream, [&](const ServerHello& server) {
    return answers(server) && id_store::may_be_of_one_deployment(server, *its);
  });
  if (is_there) return {};
  const auto other = std::ranges::find_if(upstream, answers);
  return its->address + ", of " + uri_key + ", is " + set_of(*its) + ", and " + other->address +
         ", of upstream.uri, is " + set_of(*other) +
         ": the proxies must coordinate in the servers that have the documents. Name those in " +
         uri_key + ", or remove it";
}

}  // namespace idproxy::app::jobs
