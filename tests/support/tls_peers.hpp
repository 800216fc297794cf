#pragma once

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/net/tls.hpp"
#include "support/certificates.hpp"

/// The two ends of a TLS connection without a socket between them.
namespace idproxy::test {

using TlsStatus = net::tls::Engine::Status;
using OwnedSslCtx = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

/// A peer that is not the proxy: plain OpenSSL with memory BIOs. Does not verify certificates.
class RawPeer {
 public:
  static OwnedSslCtx context(bool is_server, const Certified* own = nullptr) {
    OwnedSslCtx made(SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method()),
                     SSL_CTX_free);
    if (own != nullptr) {
      SSL_CTX_use_certificate(made.get(), own->x509());
      SSL_CTX_use_PrivateKey(made.get(), own->key());
    }
    return made;
  }

  RawPeer(SSL_CTX* context, bool is_server) : ssl_(SSL_new(context), SSL_free) {
    SSL_set_bio(ssl(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    if (is_server) {
      SSL_set_accept_state(ssl());
    } else {
      SSL_set_connect_state(ssl());
    }
  }

  [[nodiscard]] SSL* ssl() const { return ssl_.get(); }

  TlsStatus handshake(Bytes& in, Buffer& out) {
    take(in);
    return give(SSL_do_handshake(ssl()), out);
  }
  TlsStatus decrypt(Bytes& in, std::span<std::uint8_t> to, std::size_t& written, Buffer& out) {
    take(in);
    written = 0;
    int result = 1;
    while (result == 1 && written < to.size()) {
      std::size_t n = 0;
      result = SSL_read_ex(ssl(), to.data() + written, to.size() - written, &n);
      written += n;
    }
    return give(result, out);
  }
  bool encrypt(Bytes plain, Buffer& out) {
    std::size_t n = 0;
    return give(SSL_write_ex(ssl(), plain.data(), plain.size(), &n), out) == TlsStatus::done;
  }
  void close_notify(Buffer& out) { give(SSL_shutdown(ssl()) >= 0 ? 1 : -1, out); }

 private:
  void take(Bytes& in) {
    BIO_write(SSL_get_rbio(ssl()), in.data(), static_cast<int>(in.size()));
    in = {};
    ERR_clear_error();
  }
  TlsStatus give(int result, Buffer& out) {
    const int error = SSL_get_error(ssl(), result);
    BIO* sent = SSL_get_wbio(ssl());
    const auto size = BIO_ctrl_pending(sent);
    if (size > 0) BIO_read(sent, out.extend(size), static_cast<int>(size));
    if (error == SSL_ERROR_NONE) return TlsStatus::done;
    if (error == SSL_ERROR_WANT_READ) return TlsStatus::need_more;
    return error == SSL_ERROR_ZERO_RETURN ? TlsStatus::ended : TlsStatus::failed;
  }

  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
};

/// Carries bytes between `client` and `server`, in pieces in memory of exactly their size.
template <class Client, class Server>
class TlsWire {
 public:
  TlsWire(Client& client, Server& server, std::size_t piece = SIZE_MAX)
      : client_(client), server_(server), piece_(piece) {}

  /// Runs the handshake until neither side has anything to send.
  void shake() {
    Bytes nothing;
    client_status = client_.handshake(nothing, to_server);
    do {
      feed(server_, server_status, to_server, to_client);
      feed(client_, client_status, to_client, to_server);
    } while (server_status == TlsStatus::need_more && !to_server.empty());
  }
  [[nodiscard]] bool both_done() const {
    return client_status == TlsStatus::done && server_status == TlsStatus::done;
  }

  /// Sends `text` and returns what the other side reads.
  std::string to_server_says(const std::string& text) {
    EXPECT_TRUE(client_.encrypt(as_bytes(text), to_server));
    return read(server_, server_status, to_server, to_client);
  }
  std::string to_client_says(const std::string& text) {
    EXPECT_TRUE(server_.encrypt(as_bytes(text), to_client));
    return read(client_, client_status, to_client, to_server);
  }

  /// Everything in `bytes` that `reader` can decrypt.
  template <class Reader>
  std::string read(Reader& reader, TlsStatus& status, Buffer& bytes, Buffer& answers) {
    std::string text;
    do {
      const Bytes front = bytes.view().first(std::min(piece_, bytes.size()));
      const std::vector<std::uint8_t> received(front.begin(), front.end());
      Bytes in = received;
      std::vector<std::uint8_t> plain(room);
      do {
        std::size_t written = 0;
        status = reader.decrypt(in, plain, written, answers);
        text.append(as_text(Bytes(plain).first(written)));
        EXPECT_TRUE(status != TlsStatus::done || written == plain.size());
      } while (status == TlsStatus::done);
      EXPECT_TRUE(status != TlsStatus::need_more || in.empty());
      bytes.drop_front(received.size() - in.size());
    } while (status == TlsStatus::need_more && !bytes.empty());
    return text;
  }

  TlsStatus client_status = TlsStatus::need_more;
  TlsStatus server_status = TlsStatus::need_more;
  Buffer to_client;
  Buffer to_server;
  std::size_t room = 1000;  ///< output bytes of one decrypt()

 private:
  template <class Reader>
  void feed(Reader& reader, TlsStatus& status, Buffer& bytes, Buffer& answers) {
    while (status == TlsStatus::need_more && !bytes.empty()) {
      const Bytes front = bytes.view().first(std::min(piece_, bytes.size()));
      const std::vector<std::uint8_t> received(front.begin(), front.end());
      Bytes in = received;
      status = reader.handshake(in, answers);
      EXPECT_TRUE(status != TlsStatus::need_more || in.empty());
      bytes.drop_front(received.size() - in.size());
    }
  }

  Client& client_;
  Server& server_;
  std::size_t piece_;
};

/// An authority, and the proxy's server side and client side with certificates that it signed.
class TlsSides {
 public:
  using Engine = net::tls::Engine;
  using Context = net::tls::Context;
  using ClientCertificate = net::tls::ClientCertificate;

  TlsSides() {
    server_options.certificate_key_file = files.add("server.pem", server.file());
    client_options.ca_file = files.add("ca.pem", authority.pem());
  }

  /// Makes both sides verify each other's certificate.
  void check_clients(ClientCertificate mode = ClientCertificate::require) {
    server_options.ca_file = client_options.ca_file;
    server_options.client_certificate = mode;
    client_options.certificate_key_file = files.add("client.pem", client.file());
  }

  [[nodiscard]] std::shared_ptr<const Context> for_clients() const {
    const auto made = Context::for_clients(server_options);
    EXPECT_TRUE(made) << made.error().reason;
    return *made;
  }
  [[nodiscard]] std::shared_ptr<const Context> for_servers() const {
    const auto made = Context::for_servers(client_options);
    EXPECT_TRUE(made) << made.error().reason;
    return *made;
  }
  [[nodiscard]] std::unique_ptr<Engine> accept() const { return Engine::accept(for_clients()); }
  [[nodiscard]] std::unique_ptr<Engine> connect(const std::string& host = "db.example") const {
    return Engine::connect(for_servers(), host);
  }

  TemporaryFiles files;
  Authority authority;
  Certified server =
      authority.issue({.subject = "CN=server,O=Servers",
                       .names = {"db.example", "*.sets.example", "10.0.0.1", "::1"}});
  Certified client = authority.issue({.subject = "CN=client,O=Clients"});
  net::tls::ServerOptions server_options;
  net::tls::ClientOptions client_options;
};

}  // namespace idproxy::test
