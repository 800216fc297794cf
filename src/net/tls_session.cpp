#include "net/tls_session.hpp"

#include <new>
#include <utility>

namespace idproxy::net::tls {
namespace {

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

}  // namespace

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

Session& session_of(const SSL* ssl) {
  return *static_cast<Session*>(SSL_get_ex_data(ssl, session_index()));
}

}  // namespace idproxy::net::tls
