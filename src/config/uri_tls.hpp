#pragma once

#include <mongoc/mongoc.h>

#include <string>
#include <string_view>

#include "config/reader.hpp"
#include "idproxy/net/tls.hpp"

/// The TLS options of connection strings
/// (https://www.mongodb.com/docs/manual/reference/connection-string-options/#tls-options).
namespace idproxy::config {

/// Why the options contradict each other, or "". `options` is the part after "?".
[[nodiscard]] std::string fault_of_tls_options(std::string_view options);

/// Reads the TLS options. Warns at `key` of those that disable verification or have no effect.
[[nodiscard]] net::tls::ClientOptions read_tls_options(const mongoc_uri_t& uri,
                                                       std::string_view key, Reader& reader);

}  // namespace idproxy::config
