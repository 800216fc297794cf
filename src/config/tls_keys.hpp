#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "config/connection_string.hpp"
#include "idproxy/base/parameters.hpp"
#include "idproxy/net/tls.hpp"

/// Reads the certificates that a configuration names, so that faults are reported with their place
/// in the file. `now` is compared with the certificates' dates.
namespace idproxy::config {

/// Reads `listen.tls`. Null with mode: off, and after an error.
[[nodiscard]] std::shared_ptr<const net::tls::Context> read_client_tls(
    Parameters& tls, std::chrono::sys_seconds now);

/// Makes the context for the options of a connection string, the value of `key`. Null without TLS,
/// and after an error.
[[nodiscard]] std::shared_ptr<const net::tls::Context> make_server_tls(const ConnectionString& uri,
                                                                       std::string_view key,
                                                                       std::chrono::sys_seconds now,
                                                                       Parameters& reader);

}  // namespace idproxy::config
