#pragma once

#include <string>

#include "tls_session.hpp"

namespace idproxy::net::tls {

/// Why a call of OpenSSL has failed with `ssl_error` (SSL_get_error), from its queue of errors and
/// what is known of the peer.
std::string failure_text(const Session& session, int ssl_error);

/// Why the peer may have ended the connection below TLS. Empty if nobody knows.
std::string closing_text(const Session& session);

}  // namespace idproxy::net::tls
