#include "net/tls_reason.hpp"

#include <openssl/sslerr.h>
#include <openssl/tls1.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "idproxy/wire/messages.hpp"
#include "net/tls_session.hpp"

namespace idproxy::net::tls {

// ---- a peer's first bytes --------------------------------------------------------------------

namespace {

constexpr std::uint8_t kAlert = 21;
constexpr std::uint8_t kHandshake = 22;
constexpr std::uint8_t kMajor = 3;  // of SSL 3.0 and of all TLS
constexpr std::uint8_t kClientHello = 1;
constexpr std::size_t kRecordHeader = 5;
constexpr std::size_t kHelloVersion = 9;
// The range of MongoDB's op codes, which four random bytes hardly ever fall into.
constexpr std::int32_t kFirstRequest = 2001;
constexpr std::int32_t kLastRequest = 2013;

bool has_op_code(Bytes front) {
  const auto op_code = static_cast<std::int32_t>(wire::read_header(front).op_code);
  return op_code == static_cast<std::int32_t>(wire::OpCode::reply) ||
         (op_code >= kFirstRequest && op_code <= kLastRequest);
}

bool is_message(Bytes front) {
  return front.size() >= wire::kHeaderSize && has_op_code(front) &&
         wire::read_header(front).message_length >= static_cast<std::int32_t>(wire::kHeaderSize) &&
         wire::read_header(front).message_length <= wire::kMaxMessageSize;
}

bool is_http(Bytes front) {
  constexpr std::array<std::string_view, 8> kBegins = {"GET ",    "HEAD ",   "POST ", "PUT ",
                                                       "DELETE ", "OPTIONS", "PRI ",  "HTTP/"};
  const std::string_view text = as_text(front);
  return std::any_of(kBegins.begin(), kBegins.end(),
                     [text](std::string_view begin) { return text.starts_with(begin); });
}

}  // namespace

bool begins_tls(Bytes front) {
  if (front.size() < wire::kHeaderSize) return false;
  return front[0] == kHandshake && front[1] == kMajor && front[kRecordHeader] == kClientHello &&
         !has_op_code(front);
}

std::string what_instead(Bytes front) {
  if (is_message(front)) return "a MongoDB message";
  if (front.size() < 2) return {};
  if ((front[0] == kHandshake || front[0] == kAlert) && front[1] == kMajor) return {};
  return is_http(front) ? "HTTP" : "bytes of another protocol";
}

std::string hello_version(Bytes front) {
  if (front.size() < kHelloVersion + 2 || front[kHelloVersion] != kMajor) return {};
  const int minor = front[kHelloVersion + 1];
  return minor == 0 ? "SSL 3.0" : "TLS 1." + std::to_string(minor - 1);
}

// ---- reasons ---------------------------------------------------------------------------------

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
