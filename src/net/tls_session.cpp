#include "tls_session.hpp"

#include <new>
#include <utility>

namespace idproxy::net::tls {
namespace {

int session_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

}  // namespace

Session::Session(std::shared_ptr<const Context> given, Role ours)
    : context(std::move(given)), role(ours), ssl(SSL_new(context->impl().ssl.get())) {
  OwnedBio bio = open_bio(window);
  if (!ssl || !bio || SSL_set_ex_data(ssl.get(), session_index(), this) != 1) {
    throw std::bad_alloc();
  }
  BIO* both = bio.release();
  SSL_set_bio(ssl.get(), both, both);  // takes over one reference where they are the same
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
