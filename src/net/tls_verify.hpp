#pragma once

#include "tls_session.hpp"

/// OpenSSL's calls while it checks certificates. What they refuse they say in Session::reason.
namespace idproxy::net::tls {

/// SSL_CTX_set_verify: notes what is wrong with the peer's certificate.
int note_verification(int is_good, X509_STORE_CTX* verification) noexcept;

/// SSL_CTX_set_cert_cb, as a client: the server has asked for our certificate. Refuses to send one
/// by which it would take us for a member of its cluster.
int note_certificate_request(SSL* ssl, void* none) noexcept;

/// False, with a reason, if the server's certificate and ours have the same cluster_attributes().
bool differs_from_members(Session& session);

}  // namespace idproxy::net::tls
