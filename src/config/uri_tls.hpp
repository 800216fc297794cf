#pragma once

#include <mongoc/mongoc.h>

#include <string>
#include <string_view>

#include "config/reader.hpp"
#include "idproxy/net/tls.hpp"

/// The tls options of connection strings
/// (https://www.mongodb.com/docs/manual/reference/connection-string-options/#tls-options).
namespace idproxy::config {

/// What is wrong with them taken together, or "". `options` is the part behind "?".
[[nodiscard]] std::string fault_of_tls_options(std::string_view options);

/// Reports at `key` what is not checked because of them, and which have no effect.
[[nodiscard]] net::tls::ClientOptions read_tls_options(const mongoc_uri_t& uri,
                                                       std::string_view key, Reader& reader);

}  // namespace idproxy::config
