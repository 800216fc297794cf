#pragma once

#include <string>

#include "idproxy/base/bytes.hpp"

namespace idproxy::net::tls {

struct Session;

/// Why a call of OpenSSL failed with `ssl_error` (SSL_get_error), from OpenSSL's error queue and
/// what is known about the peer.
std::string failure_text(const Session& session, int ssl_error);

/// Why the peer may have closed the connection without an alert. Empty if unknown.
std::string closing_text(const Session& session);

// The first records of client and server have the same layout:
//
//   record    ::= uint8 type (22: handshake)  uint8 3  uint8 minor  uint16 length  handshake
//   handshake ::= uint8 type (1: ClientHello, 2: ServerHello)  uint24 length
//                 uint8 3  uint8 minor  uint8[32] random ...
//
// Big-endian (RFC 8446, 5.1 and 4). begins_tls() of tls.hpp is implemented here, too.

/// Returns a name for bytes that do not begin TLS: "HTTP", "a MongoDB message" or "bytes of another
/// protocol". Empty if the bytes may begin TLS.
std::string what_instead(Bytes front);

/// The version in a ServerHello, or the newest one that a ClientHello without TLS 1.3 offers:
/// "TLS 1.1". Empty if there are too few bytes.
std::string hello_version(Bytes front);

}  // namespace idproxy::net::tls
