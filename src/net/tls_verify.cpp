#include "net/tls_verify.hpp"

#include <new>

#include "net/tls_certificate.hpp"

namespace idproxy::net::tls {
namespace {

/// The certificate that OpenSSL is verifying: "the client's certificate 'CN=a'", or an authority of
/// its chain.
std::string current_text(const Session& session, X509_STORE_CTX* verification) {
  std::string peers = session.peer() + "'s certificate '" +
                      subject_text(X509_STORE_CTX_get0_cert(verification)) + "'";
  const X509* current = X509_STORE_CTX_get_current_cert(verification);
  if (X509_STORE_CTX_get_error_depth(verification) == 0 || current == nullptr) return peers;
  return "the CA certificate '" + subject_text(current) + "' of " + peers;
}

std::string wrong_name_text(const Session& session, const std::string& which, const X509* current) {
  const std::string names = names_text(current);
  return which + " is not for '" + session.host + "'; it " +
         (names.empty() ? "has no names" : "is for " + names);
}

std::string verification_text(const Session& session, X509_STORE_CTX* verification) {
  const X509* current = X509_STORE_CTX_get_current_cert(verification);
  const std::string which = current_text(session, verification);
  const int error = X509_STORE_CTX_get_error(verification);
  const std::string error_says = X509_verify_cert_error_string(error);
  if (current == nullptr) return which + " is refused: " + error_says;
  const std::string& trusted = session.context->impl().trusted;
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return which + " expired on " + time_text(not_after(current));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return which + " is not valid before " + time_text(not_before(current));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return wrong_name_text(session, which, current);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "unknown CA: " + which + " is signed by '" + name_text(X509_get_issuer_name(current)) +
             "', which " + trusted + " does not have";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return which + " is self-signed, and " + trusted + " does not have it";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return "unknown CA: " + which + " is self-signed, and " + trusted + " does not have it";
    case X509_V_ERR_CERT_REVOKED:
      return which + " is revoked";
    case X509_V_ERR_UNABLE_TO_GET_CRL:
      return which + " is refused: " + trusted + " has no revocation list of '" +
             name_text(X509_get_issuer_name(current)) + "' (" + error_says + ")";
    default:
      return which + " is refused: " + error_says;
  }
}

}  // namespace

int note_verification(int is_good, X509_STORE_CTX* verification) noexcept {
  if (is_good == 1) return 1;
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx()));
  if (SSL_get_verify_mode(ssl) == SSL_VERIFY_NONE) return 1;
  try {
    Session& session = session_of(ssl);
    session.reason = verification_text(session, verification);
  } catch (const std::bad_alloc&) {
    return 0;  // refused without a reason
  }
  return 0;
}

bool differs_from_members(Session& session) {
  const Context::Impl& context = session.context->impl();
  if (context.own_cluster_attributes.empty()) return true;
  const X509* servers = SSL_get0_peer_certificate(session.ssl.get());
  if (servers == nullptr) return true;
  if (cluster_attributes(servers) != context.own_cluster_attributes) return true;
  session.reason = "our certificate '" + context.own_subject +
                   "' has the same O, OU and DC as the " + "server's '" + subject_text(servers) +
                   "': mongod would take the proxy for a member of its cluster, with all rights; " +
                   "use a certificate that differs in one of them";
  return false;
}

int note_certificate_request(SSL* ssl, void* /*none*/) noexcept {
  Session& session = session_of(ssl);
  session.certificate_requested = true;
  try {
    return differs_from_members(session) ? 1 : 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

}  // namespace idproxy::net::tls
