#include "net/tls_reason.hpp"

#include <openssl/sslerr.h>
#include <openssl/tls1.h>

#include <string_view>

#include "net/tls_first_bytes.hpp"

namespace idproxy::net::tls {
namespace {

/// The first error of the TLS layer itself, else the first of all, which is a detail from below.
unsigned long main_error() {
  const unsigned long first = ERR_peek_error();
  while (const unsigned long error = ERR_get_error()) {
    if (ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_COMMON_ERROR(error) == 0) return error;
  }
  return first;
}

bool blames_certificate(int alert) {
  switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
      return true;
    default:
      return false;
  }
}

/// " (alert: unknown ca)" for "tlsv1 alert unknown ca", whose version is not that of the session.
std::string alert_name(unsigned long error) {
  constexpr std::string_view kWord = "alert ";
  const std::string text = error_text(error);
  const std::size_t at = text.find(kWord);
  return " (alert: " + (at == text.npos ? text : text.substr(at + kWord.size())) + ")";
}

std::string alert_text(const Session& session, int alert, unsigned long error) {
  const std::string peer = session.peer();
  const std::string said = alert_name(error);
  const std::string& own = session.context->impl().own_subject;
  if (alert == SSL_AD_PROTOCOL_VERSION) return peer + " speaks neither TLS 1.2 nor 1.3" + said;
  if (alert == SSL_AD_CERTIFICATE_REQUIRED) return peer + " requires a client certificate" + said;
  if (blames_certificate(alert) && !own.empty()) {
    return peer + " refused our certificate '" + own + "'" + said;
  }
  if (session.certificate_requested && own.empty()) {
    return peer + " refused the connection: it asks for a client certificate, and none is set" +
           said;
  }
  return peer + " ended the TLS session" + said;
}

std::string version_text(const Session& session) {
  const std::string version = hello_version(session.first_bytes());
  return session.peer() + (session.is_server() ? " offers" : " speaks") +
         (version.empty() ? " no version of TLS that is allowed" : " only " + version) +
         "; TLS 1.2 or 1.3 is needed";
}

}  // namespace

std::string failure_text(const Session& session, int ssl_error) {
  const std::string peer = session.peer();
  if (const std::string instead = what_instead(session.first_bytes()); !instead.empty()) {
    return peer + (session.is_server() ? " sent no TLS, but " : " speaks no TLS: it sent ") +
           instead;
  }
  if (ssl_error == SSL_ERROR_ZERO_RETURN) return peer + " closed during the TLS handshake";
  const unsigned long error = main_error();
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) == ERR_LIB_SSL) {
    switch (reason) {
      case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return peer + " sent no certificate, and one is required";
      case SSL_R_NO_SHARED_CIPHER:
        return peer + " offers no cipher suite that is allowed";
      case SSL_R_UNSUPPORTED_PROTOCOL:
      case SSL_R_VERSION_TOO_LOW:
        return version_text(session);
      default:
        break;
    }
    if (reason >= SSL_AD_REASON_OFFSET) {
      return alert_text(session, reason - SSL_AD_REASON_OFFSET, error);
    }
  }
  const std::string says = error == 0 ? "no memory" : error_text(error);
  if (!session.handshake_done) return "the TLS handshake with " + peer + " failed: " + says;
  return "the TLS session with " + peer + " is broken: " + says;
}

std::string closing_text(const Session& session) {
  const std::string closed = session.peer() + " closed the connection ";
  if (!session.handshake_done) {
    if (session.is_server() || session.front_size > 0) return closed + "during the TLS handshake";
    return closed + "at the first bytes of TLS: it may speak none";
  }
  if (session.has_received || !session.certificate_requested) return {};
  const std::string& own = session.context->impl().own_subject;
  return closed + "after the TLS handshake, as mongod does with those " +
         (own.empty() ? "that have no certificate: none is set"
                      : "whose certificate it refuses: ours is '" + own + "'");
}

}  // namespace idproxy::net::tls
