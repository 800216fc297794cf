#pragma once

#include <map>
#include <string>
#include <vector>

namespace idproxy::config {

/// What the DNS says about a mongodb+srv connection string
/// (https://www.mongodb.com/docs/manual/reference/connection-string/#dns-seed-list-connection-format).
struct SeedList {
  std::vector<std::string> hosts;              ///< "host:port", not empty
  std::map<std::string, std::string> options;  ///< of the TXT record, not percent-encoded
};

/// The mongodb:// string that means the same as `srv_uri`, which parse() has accepted: with the
/// hosts in its place, options of the TXT record that it does not have itself, and without the
/// options that only go with srv.
///
///   mongodb+srv://bob:x@db.example.org/shop?tls=false  ->
///   mongodb://bob:x@db1.example.org:27017,db2.example.org:27017/shop?tls=false&replicaSet=rs0
[[nodiscard]] std::string with_seed_list(const std::string& srv_uri, const SeedList& seeds);

}  // namespace idproxy::config
