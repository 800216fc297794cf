#pragma once

#include <string>

#include "idproxy/net/options.hpp"

/// Whether two texts of a configuration mean one host. Nothing is looked up.
namespace idproxy::config {

/// The bytes of an IP address, 4 or 16; empty for a name. Different spellings of one address agree.
[[nodiscard]] std::string address_bytes(const std::string& host);

/// Without regard to case or spelling.
[[nodiscard]] bool same_name_or_address(const std::string& a, const std::string& b);

/// 0.0.0.0 or ::, all addresses of this host.
[[nodiscard]] bool is_any(const std::string& host);

/// True if whoever connects to `other` may reach who listens at `listen`.
[[nodiscard]] bool same_place(const net::Endpoint& listen, const net::Endpoint& other);

/// True if two that listen there may be in each other's way.
[[nodiscard]] bool compete(const net::Endpoint& a, const net::Endpoint& b);

}  // namespace idproxy::config
