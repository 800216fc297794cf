#pragma once

#include "net/tls_session.hpp"

/// Callbacks for OpenSSL's verification of certificates. They put the reason for a refusal into
/// Session::reason.
namespace idproxy::net::tls {

/// SSL_CTX_set_verify: notes what is wrong with the peer's certificate.
int note_verification(int is_good, X509_STORE_CTX* verification) noexcept;

/// SSL_CTX_set_cert_cb for clients: the server asks for our certificate. Refuses to send one that
/// would make the server take the proxy for a member of its cluster.
int note_certificate_request(SSL* ssl, void* none) noexcept;

/// False, with a reason, if the server's certificate and ours have the same cluster_attributes().
bool differs_from_members(Session& session);

}  // namespace idproxy::net::tls
