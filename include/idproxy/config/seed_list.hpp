#pragma once

#include <boost/system/result.hpp>
#include <map>
#include <string>
#include <vector>

namespace idproxy::config {

/// The DNS records of a mongodb+srv connection string
/// (https://www.mongodb.com/docs/manual/reference/connection-string/#dns-seed-list-connection-format).
struct SeedList {
  std::vector<std::string> hosts;              ///< "host:port", not empty
  std::map<std::string, std::string> options;  ///< from the TXT record, not percent-encoded
};

/// The mongodb:// string that `srv_uri`, which parse() has accepted, resolves to. It names the
/// seeds' hosts, adds the TXT record's options unless the string sets them itself, and drops the
/// options that only apply to mongodb+srv. An error, for people, if a host is not one of letters,
/// digits and ".-_" with a port: it could change the rest of the string.
///
///   mongodb+srv://bob:x@db.example.org/shop?tls=false  ->
///   mongodb://bob:x@db1.example.org:27017,db2.example.org:27017/shop?tls=false&replicaSet=rs0
[[nodiscard]] boost::system::result<std::string, std::string> with_seed_list(
    const std::string& srv_uri, const SeedList& seeds);

}  // namespace idproxy::config
