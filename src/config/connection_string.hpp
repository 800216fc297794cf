#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::config {

/// What a MongoDB connection string says about servers
/// (https://www.mongodb.com/docs/manual/reference/connection-string/).
struct ConnectionString {
  std::vector<net::Endpoint> hosts;  ///< in its order, without repetitions; names in lower case
  bool srv = false;                  ///< mongodb+srv: the hosts are in the DNS, none here
  bool tls = false;                  ///< tls=true, any other tls option, or srv, without tls=false
  net::tls::ClientOptions tls_options;
  bool direct = false;      ///< directConnection=true
  std::string replica_set;  ///< replicaSet; empty: none
  bool has_user = false;
};

/// Reads `uri`, the value of `key`. Faults, unknown options and those that make TLS unsafe are
/// reported there, never with any of the string's user, password or values of options. Nothing if
/// it cannot be used. The files that it names are not looked at.
[[nodiscard]] std::optional<ConnectionString> parse_connection_string(const std::string& uri,
                                                                      std::string_view key,
                                                                      Reader& reader);

}  // namespace idproxy::config
