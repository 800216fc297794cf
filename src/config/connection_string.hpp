#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/parameters.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/net/options.hpp"
#include "idproxy/net/tls.hpp"

namespace idproxy::config {

inline constexpr std::string_view kScheme = "mongodb://";
inline constexpr std::string_view kSrvScheme = "mongodb+srv://";

/// Views into a connection string, split as libmongoc does:
/// scheme://user_info@hosts/path?options.
struct UriParts {
  std::string_view user_info;  ///< "user:password", without '@'
  std::string_view hosts;
  std::string_view path;  ///< with its '/'
  std::string_view options;
};

/// `uri` must begin with one of the schemes.
[[nodiscard]] UriParts split_uri(std::string_view uri);

/// Calls `use(name, value)` for each option.
template <class Use>
void for_each_option(std::string_view options, Use use) {
  while (!options.empty()) {
    std::string_view value = take_part(options, "&;");
    const std::string_view name = take_part(value, "=");
    use(name, value);
  }
}

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
                                                                      Parameters& reader);

}  // namespace idproxy::config
