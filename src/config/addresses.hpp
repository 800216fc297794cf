#pragma once

#include <string>

#include "idproxy/net/options.hpp"

/// Compares host names and addresses as they are written, without name lookups.
namespace idproxy::config {

/// The 4 or 16 bytes of an IP address, the same for all its spellings; empty for a name.
[[nodiscard]] std::string address_bytes(const std::string& host);

/// Ignores the case of names and the spelling of addresses.
[[nodiscard]] bool same_name_or_address(const std::string& a, const std::string& b);

/// True for 0.0.0.0 and ::, which stand for all addresses of this host.
[[nodiscard]] bool is_any(const std::string& host);

/// True if only this host can reach a listener at this address: 127.0.0.0/8 and ::1.
[[nodiscard]] bool is_local_only(const std::string& address);

/// True if a connection to `other` may reach a listener at `listen`.
[[nodiscard]] bool same_place(const net::Endpoint& listen, const net::Endpoint& other);

/// True if two listeners at these addresses may conflict.
[[nodiscard]] bool compete(const net::Endpoint& a, const net::Endpoint& b);

}  // namespace idproxy::config
