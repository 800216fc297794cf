#pragma once

#include <string>

#include "net/tls_session.hpp"

namespace idproxy::net::tls {

/// Why a call of OpenSSL failed with `ssl_error` (SSL_get_error), from OpenSSL's error queue and
/// what is known about the peer.
std::string failure_text(const Session& session, int ssl_error);

/// Why the peer may have closed the connection without an alert. Empty if unknown.
std::string closing_text(const Session& session);

}  // namespace idproxy::net::tls
