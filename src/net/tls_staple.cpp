#include <openssl/ocsp.h>

#include <new>
#include <optional>
#include <string>

#include "idproxy/base/owned.hpp"
#include "net/tls_certificate.hpp"
#include "net/tls_session.hpp"

namespace idproxy::net::tls {
namespace {

using OwnedResponse = Owned<OCSP_RESPONSE, OCSP_RESPONSE_free>;
using OwnedBasic = Owned<OCSP_BASICRESP, OCSP_BASICRESP_free>;
using OwnedId = Owned<OCSP_CERTID, OCSP_CERTID_free>;

constexpr long kClockSkew = 300;  // seconds

/// The stapled response; empty: none.
Bytes staple_of(SSL* ssl) {
  const unsigned char* bytes = nullptr;
  const long size =
      SSL_ctrl(ssl, SSL_CTRL_GET_TLSEXT_STATUS_REQ_OCSP_RESP, 0, static_cast<void*>(&bytes));
  return bytes == nullptr || size <= 0 ? Bytes() : Bytes(bytes, static_cast<std::size_t>(size));
}

/// What the response says of one certificate.
struct Verdict {
  int status = V_OCSP_CERTSTATUS_UNKNOWN;
  ASN1_GENERALIZEDTIME* from = nullptr;
  ASN1_GENERALIZEDTIME* until = nullptr;
};

/// Authorities name certificates by one of these digests.
std::optional<Verdict> verdict_on(const X509* certificate, const X509* issuer,
                                  OCSP_BASICRESP* basic) {
  for (const EVP_MD* digest : {EVP_sha1(), EVP_sha256()}) {
    const OwnedId id(OCSP_cert_to_id(digest, certificate, issuer));
    if (!id) throw std::bad_alloc();
    Verdict found;
    if (OCSP_resp_find_status(basic, id.get(), &found.status, nullptr, nullptr, &found.from,
                              &found.until) == 1) {
      return found;
    }
  }
  return std::nullopt;
}

/// Why the server is refused, as a predicate for its certificate; empty: it is not.
std::string fault_in(Bytes staple, SSL* ssl) {
  const unsigned char* bytes = staple.data();
  const OwnedResponse response(
      d2i_OCSP_RESPONSE(nullptr, &bytes, static_cast<long>(staple.size())));
  if (!response || bytes != staple.data() + staple.size()) return "cannot be read";
  if (const int status = OCSP_response_status(response.get());
      status != OCSP_RESPONSE_STATUS_SUCCESSFUL) {
    return std::string("says ") + OCSP_response_status_str(status);
  }
  const OwnedBasic basic(OCSP_response_get1_basic(response.get()));
  if (!basic) return "cannot be read";
  STACK_OF(X509)* chain = SSL_get0_verified_chain(ssl);
  if (sk_X509_num(chain) < 2) return {};  // trusted by itself: nobody can revoke it
  X509_STORE* trusted = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(ssl));
  if (OCSP_basic_verify(basic.get(), chain, trusted, 0) != 1) {
    return "is not signed by its authority: " + error_text(ERR_peek_last_error());
  }
  const auto verdict = verdict_on(sk_X509_value(chain, 0), sk_X509_value(chain, 1), basic.get());
  if (!verdict) return "is about other certificates";
  if (OCSP_check_validity(verdict->from, verdict->until, kClockSkew, -1) != 1) {
    return "is not of this time: " + error_text(ERR_peek_last_error());
  }
  if (verdict->status == V_OCSP_CERTSTATUS_GOOD) return {};
  return verdict->status == V_OCSP_CERTSTATUS_REVOKED ? "says that it is revoked"
                                                      : "says that its authority does not know it";
}

}  // namespace

int note_staple(SSL* ssl, void* /*none*/) noexcept {
  constexpr int kAccepted = 1;
  constexpr int kRefused = 0;
  const Bytes staple = staple_of(ssl);
  if (staple.empty()) return kAccepted;
  try {
    ERR_clear_error();
    const std::string fault = fault_in(staple, ssl);
    // Else the connection would keep it.
    SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_STATUS_REQ_OCSP_RESP, 0, nullptr);
    if (fault.empty()) return kAccepted;
    Session& session = session_of(ssl);
    session.reason = "the stapled OCSP response for " + session.peer() + "'s certificate '" +
                     subject_text(SSL_get0_peer_certificate(ssl)) + "' " + fault;
  } catch (const std::bad_alloc&) {
    return kRefused;  // without a reason
  }
  return kRefused;
}

}  // namespace idproxy::net::tls
