#include "net/tls_session.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "net/tls_certificate.hpp"

namespace idproxy::net::tls {
namespace {

// ---- the bytes of a session ------------------------------------------------------------------

Window& window_of(BIO* bio) {
  return *static_cast<Window*>(BIO_get_data(bio));
}

int read(BIO* bio, char* to, std::size_t size, std::size_t* read) {
  BIO_clear_retry_flags(bio);
  const Window& window = window_of(bio);
  if (window.shut) return 0;
  if (window.in == nullptr || window.in->empty()) {
    BIO_set_retry_read(bio);
    return 0;
  }
  *read = std::min(size, window.in->size());
  std::memcpy(to, window.in->data(), *read);
  *window.in = window.in->subspan(*read);
  return 1;
}

int write(BIO* bio, const char* from, std::size_t size, std::size_t* written) {
  BIO_clear_retry_flags(bio);
  const Window& window = window_of(bio);
  if (window.out == nullptr) return 0;
  try {
    window.out->append(as_bytes({from, size}));
  } catch (const std::bad_alloc&) {  // must not propagate through OpenSSL's frames
    return 0;
  }
  *written = size;
  return 1;
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

OwnedBioMethod make_method() {
  OwnedBioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "window"));
  if (method == nullptr) throw std::bad_alloc();
  BIO_meth_set_read_ex(method.get(), read);
  BIO_meth_set_write_ex(method.get(), write);
  BIO_meth_set_ctrl(method.get(), control);
  BIO_meth_set_create(method.get(), create);
  return method;
}

/// A BIO whose reads consume `window.in` (at its end they ask to retry) and whose writes append to
/// `window.out`. `window` must outlive it. Null if there is no memory.
OwnedBio open_bio(Window& window) {
  static const OwnedBioMethod method = make_method();
  OwnedBio bio(BIO_new(method.get()));
  if (bio) BIO_set_data(bio.get(), &window);
  return bio;
}

int session_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

/// OpenSSL calls this for each TLS message, also in the middle of a call that reads many.
void count_message(int sent, int /*version*/, int type, const void* /*bytes*/, std::size_t /*size*/,
                   SSL* /*ssl*/, void* argument) {
  Session& session = *static_cast<Session*>(argument);
  if (sent != 0 || type != SSL3_RT_HANDSHAKE || !session.handshake_done) return;
  if (++session.idle_messages > Session::kMostIdleMessages) session.window.shut = true;
}

// ---- texts -----------------------------------------------------------------------------------

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

Session& session_of(const SSL* ssl) {
  return *static_cast<Session*>(SSL_get_ex_data(ssl, session_index()));
}

Session::Session(std::shared_ptr<const Context> given, Role ours)
    : context(std::move(given)), role(ours), ssl(SSL_new(context->impl().ssl.get())) {
  OwnedBio bio = open_bio(window);
  if (!ssl || !bio || SSL_set_ex_data(ssl.get(), session_index(), this) != 1) {
    throw std::bad_alloc();
  }
  SSL_set_msg_callback(ssl.get(), count_message);
  SSL_set_msg_callback_arg(ssl.get(), this);
  BIO* both = bio.release();
  SSL_set_bio(ssl.get(), both, both);  // takes over one reference if both are the same
  if (is_server()) {
    SSL_set_accept_state(ssl.get());
  } else {
    SSL_set_connect_state(ssl.get());
  }
}

// ---- verification ----------------------------------------------------------------------------

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
