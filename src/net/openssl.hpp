#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <string>

#include "idproxy/base/owned.hpp"

/// Owning pointers for OpenSSL's objects, and its error texts.
namespace idproxy::net::tls {

using OwnedBio = Owned<BIO, BIO_free_all>;
using OwnedBioMethod = Owned<BIO_METHOD, BIO_meth_free>;
using OwnedCertificate = Owned<X509, X509_free>;
using OwnedKey = Owned<EVP_PKEY, EVP_PKEY_free>;
using OwnedSsl = Owned<SSL, SSL_free>;
using OwnedSslContext = Owned<SSL_CTX, SSL_CTX_free>;

/// OpenSSL's text for an error, or "unknown error".
inline std::string error_text(unsigned long error) {
  const char* text = ERR_reason_error_string(error);
  return text != nullptr ? text : "unknown error";
}

/// SSL_set_tlsext_host_name() without its cast.
inline void set_sni(SSL* ssl, std::string name) {
  SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
}

/// SSL_CTX_set_tlsext_status_type() and _cb() without their casts: the client asks servers for an
/// OCSP response, and `check(ssl, null)` gets what each handshake brought.
inline void ask_for_staple(SSL_CTX* context, int (*check)(SSL*, void*)) {
  SSL_CTX_ctrl(context, SSL_CTRL_SET_TLSEXT_STATUS_REQ_TYPE, TLSEXT_STATUSTYPE_ocsp, nullptr);
  SSL_CTX_callback_ctrl(context, SSL_CTRL_SET_TLSEXT_STATUS_REQ_CB,
                        reinterpret_cast<void (*)()>(check));
}

}  // namespace idproxy::net::tls
