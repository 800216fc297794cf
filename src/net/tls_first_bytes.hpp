#pragma once

#include <string>

#include "idproxy/base/bytes.hpp"

/// What a peer's first bytes say. Both peers' first record has the same shape:
///
///   record    ::= uint8 type (22: handshake)  uint8 3  uint8 minor  uint16 length  handshake
///   handshake ::= uint8 type (1: ClientHello, 2: ServerHello)  uint24 length
///                 uint8 3  uint8 minor  uint8[32] random ...
///
/// Big-endian (RFC 8446, 5.1 and 4). begins_tls() of tls.hpp is here, too.
namespace idproxy::net::tls {

/// What they are, if they cannot begin TLS: "HTTP", "a MongoDB message", "bytes that are none".
/// Empty if they can.
std::string what_instead(Bytes front);

/// The newest version of a ClientHello that does not know TLS 1.3, or that of a ServerHello:
/// "TLS 1.1". Empty if there are too few bytes.
std::string hello_version(Bytes front);

}  // namespace idproxy::net::tls
