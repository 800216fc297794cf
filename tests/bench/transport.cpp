#include "transport.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <stdexcept>
#include <string>

#include "sockets.hpp"

namespace idproxy::bench {
namespace {

/// What OpenSSL's defaults agree on, and so what drivers and mongod use.
constexpr const char* kCipher13 = "TLS_AES_256_GCM_SHA384";
constexpr const char* kCipher12 = "ECDHE-RSA-AES256-GCM-SHA384";
constexpr const char* kGroup = "X25519";

/// Several records with one system call: the load must not be slower than what it loads.
constexpr std::size_t kReadAheadBytes = 64 * 1024;

void require(bool success, const char* what) {
  if (success) return;
  throw std::runtime_error(std::string(what) + ": " + ERR_error_string(ERR_get_error(), nullptr));
}

Session make_session(ssl_ctx_st* context, const Fd& fd) {
  Session session(SSL_new(context));
  require(session != nullptr && SSL_set_fd(session.get(), fd.get()) == 1, "SSL_new");
  return session;
}

}  // namespace

void Transport::FreeContext::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

Transport::Context Transport::make_context(TlsVersion version) {
  Context made(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = made.get();
  require(context != nullptr, "SSL_CTX_new");
  const int number = version == TlsVersion::v1_2 ? TLS1_2_VERSION : TLS1_3_VERSION;
  require(SSL_CTX_set_min_proto_version(context, number) == 1, "SSL_CTX_set_min_proto_version");
  require(SSL_CTX_set_max_proto_version(context, number) == 1, "SSL_CTX_set_max_proto_version");
  require(SSL_CTX_set_ciphersuites(context, kCipher13) == 1, "SSL_CTX_set_ciphersuites");
  require(SSL_CTX_set_cipher_list(context, kCipher12) == 1, "SSL_CTX_set_cipher_list");
  require(SSL_CTX_set1_groups_list(context, kGroup) == 1, "SSL_CTX_set1_groups_list");
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  // haproxy ends without close_notify when it is told to stop.
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_read_buffer_len(context, kReadAheadBytes);
  return made;
}

Transport::Transport(TlsVersion version, TlsSides sides, const CertificateFiles& files)
    : client_(make_context(version)) {
  const char* const certificate_key = files.certificate_key.c_str();
  require(SSL_CTX_load_verify_file(client_.get(), files.ca.c_str()) == 1, "CA file");
  SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, nullptr);
  if (sides == TlsSides::client) return;
  server_ = make_context(version);
  require(SSL_CTX_use_certificate_chain_file(server_.get(), certificate_key) == 1, "certificate");
  require(SSL_CTX_use_PrivateKey_file(server_.get(), certificate_key, SSL_FILETYPE_PEM) == 1,
          "private key");
}

Transport Transport::over_unix_sockets() {
  Transport transport;
  transport.unix_sockets_ = true;
  return transport;
}

Stream Transport::connect(std::uint16_t port) const {
  Fd fd = unix_sockets_ ? connect_to_unix_socket(port) : connect_to_loopback(port);
  if (!client_) return Stream(std::move(fd));
  Session session = make_session(client_.get(), fd);
  SSL_set_connect_state(session.get());
  return {std::move(fd), std::move(session)};
}

Stream Transport::accept(Fd fd) const {
  if (!server_) return Stream(std::move(fd));
  Session session = make_session(server_.get(), fd);
  SSL_set_accept_state(session.get());
  return {std::move(fd), std::move(session)};
}

}  // namespace idproxy::bench
