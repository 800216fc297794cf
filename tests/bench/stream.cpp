#include "stream.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <stdexcept>

#include "sockets.hpp"

namespace idproxy::bench {

void EndSession::operator()(ssl_st* session) const {
  SSL_shutdown(session);
  SSL_free(session);
}

bool Stream::handshake() {
  if (!session_) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(session_.get());
  if (result == 1) return true;
  const int error = error_of(result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return false;
  throw std::runtime_error("a connection was closed in its TLS handshake");
}

std::ptrdiff_t Stream::receive(char* buffer, std::size_t size) {
  if (!session_) return receive_some(fd_, buffer, size);
  ERR_clear_error();
  std::size_t received = 0;
  const int result = SSL_read_ex(session_.get(), buffer, size, &received);
  if (result == 1) return static_cast<std::ptrdiff_t>(received);
  return error_of(result) == SSL_ERROR_WANT_READ ? 0 : -1;
}

bool Stream::pending() const {
  return session_ && SSL_has_pending(session_.get()) == 1;
}

Sent Stream::send(OutgoingMessage& message) {
  if (session_) return send_records(message);
  if (!message.send(fd_.get())) return Sent::failed;
  return message.done() ? Sent::all : Sent::waits_for_room;
}

std::string Stream::negotiated() const {
  SSL* const session = session_.get();
  const long group = SSL_get_negotiated_group(session);
  const char* const name = SSL_group_to_name(session, static_cast<int>(group));
  return std::string(SSL_get_version(session)) + ' ' + SSL_get_cipher_name(session) + ' ' +
         (name == nullptr ? "?" : name);
}

/// A record that did not go out is offered again with the same bytes, as OpenSSL demands: it
/// begins at the same place in the message, and is as long.
Sent Stream::send_records(OutgoingMessage& message) {
  std::array<char, SSL3_RT_MAX_PLAIN_LENGTH> copy;
  while (!message.done()) {
    const std::string_view record = message.unsent(copy);
    ERR_clear_error();
    std::size_t sent = 0;
    const int result = SSL_write_ex(session_.get(), record.data(), record.size(), &sent);
    if (result != 1) {
      const int error = error_of(result);
      if (error == SSL_ERROR_WANT_WRITE) return Sent::waits_for_room;
      return error == SSL_ERROR_WANT_READ ? Sent::waits_for_peer : Sent::failed;
    }
    message.advance(sent);
  }
  return Sent::all;
}

int Stream::error_of(int result) const {
  const int error = SSL_get_error(session_.get(), result);
  if (error == SSL_ERROR_SSL) {
    throw std::runtime_error(std::string("TLS: ") + ERR_error_string(ERR_get_error(), nullptr));
  }
  return error;
}

}  // namespace idproxy::bench
