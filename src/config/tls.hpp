#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "config/connection_string.hpp"
#include "config/reader.hpp"
#include "idproxy/net/tls.hpp"

/// Certificates that a configuration names. Their files are read here, so that what is wrong with
/// them is said with its place. `now` is for what is to be said of their dates.
namespace idproxy::config {

/// Reads `listen.tls`. Null with mode: off, and after an error.
[[nodiscard]] std::shared_ptr<const net::tls::Context> read_client_tls(
    Reader& tls, std::chrono::sys_seconds now);

/// As the options of a connection string, the value of `key`, say. Null without TLS, and after an
/// error.
[[nodiscard]] std::shared_ptr<const net::tls::Context> make_server_tls(const ConnectionString& uri,
                                                                       std::string_view key,
                                                                       std::chrono::sys_seconds now,
                                                                       Reader& reader);

}  // namespace idproxy::config
