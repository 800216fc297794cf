#pragma once

#include <string>

#include "idproxy/base/bytes.hpp"

/// Parses a peer's first bytes. The first records of client and server have the same layout:
///
///   record    ::= uint8 type (22: handshake)  uint8 3  uint8 minor  uint16 length  handshake
///   handshake ::= uint8 type (1: ClientHello, 2: ServerHello)  uint24 length
///                 uint8 3  uint8 minor  uint8[32] random ...
///
/// Big-endian (RFC 8446, 5.1 and 4). begins_tls() of tls.hpp is implemented here, too.
namespace idproxy::net::tls {

/// Returns a name for bytes that do not begin TLS: "HTTP", "a MongoDB message" or "bytes of another
/// protocol". Empty if the bytes may begin TLS.
std::string what_instead(Bytes front);

/// The version in a ServerHello, or the newest one that a ClientHello without TLS 1.3 offers:
/// "TLS 1.1". Empty if there are too few bytes.
std::string hello_version(Bytes front);

}  // namespace idproxy::net::tls
