#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.hpp"
#include "idproxy/net/options.hpp"

namespace idproxy::config {

/// The contents of a MongoDB connection string
/// (https://www.mongodb.com/docs/manual/reference/connection-string/).
struct ConnectionString {
  std::vector<net::Endpoint> hosts;  ///< in order, without duplicates; names in lower case
  bool srv = false;                  ///< mongodb+srv: the hosts are in the DNS, `hosts` is empty
  bool tls = false;                  ///< tls=true, any other tls option, or srv, without tls=false
  net::tls::ClientOptions tls_options;
  bool direct = false;      ///< directConnection=true
  std::string replica_set;  ///< replicaSet; empty: none
  bool has_user = false;
};

/// Parses `uri`, the value of `key`, and reports faults, unknown options and options that make TLS
/// unsafe at that key. Reports never contain the user, the password or option values. Returns
/// nothing if the string cannot be used. Does not read the files that it names.
[[nodiscard]] std::optional<ConnectionString> parse_connection_string(const std::string& uri,
                                                                      std::string_view key,
                                                                      Reader& reader);

}  // namespace idproxy::config
