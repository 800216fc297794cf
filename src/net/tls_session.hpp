#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "idproxy/base/bytes.hpp"
#include "idproxy/net/tls.hpp"
#include "net/openssl.hpp"

namespace idproxy::net::tls {

struct Context::Impl {
  OwnedSslContext ssl;
  std::vector<Certificate> certificates;
  std::size_t own_chain = 0;  ///< how many of `certificates`, from the front, are the own chain
  std::string own_subject;    ///< the own certificate's; empty: none
  std::vector<std::string> own_cluster_attributes;
  std::string content;  ///< the file names, digests of all certificates and lists, and the mode
  std::string trusted;  ///< the source of trusted authorities, for texts: "the CA file /etc/ca.pem"
  bool checks_names = false;
};

/// The buffers that a session reads and writes during one call; both null between calls.
struct Window {
  Bytes* in = nullptr;
  Buffer* out = nullptr;
  bool shut = false;  ///< permanently: reads report the end
};

/// The proxy's role in the handshake.
enum class Role : std::uint8_t { server, client };

/// The state of one connection.
struct Session {
  /// The most TLS messages (such as key updates) without data between them. A peer that sends more
  /// only wants to keep the proxy busy. BoringSSL has the same limit.
  static constexpr std::uint8_t kMostIdleMessages = 32;

  /// Throws std::bad_alloc.
  Session(std::shared_ptr<const Context> context, Role role);
  // OpenSSL keeps its address.
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::shared_ptr<const Context> context;
  Role role;
  bool handshake_done = false;
  bool failed = false;
  bool certificate_requested = false;  ///< by the server
  bool has_received = false;           ///< plaintext
  std::uint8_t idle_messages = 0;      ///< TLS messages since the handshake or the last plaintext
  std::uint8_t front_size = 0;
  std::array<std::uint8_t, 16> front{};  ///< the peer's first bytes: they show what is not TLS
  std::string host;                      ///< the server's, for texts; empty after the handshake
  std::string reason;
  Window window;
  OwnedSsl ssl;

  [[nodiscard]] bool is_server() const { return role == Role::server; }
  /// "the client"
  [[nodiscard]] std::string peer() const { return is_server() ? "the client" : "the server"; }
  [[nodiscard]] Bytes first_bytes() const { return {front.data(), front_size}; }
};

/// The session that `ssl` belongs to.
[[nodiscard]] Session& session_of(const SSL* ssl);

// Callbacks for OpenSSL's verification of certificates. They put the reason for a refusal into
// Session::reason.

/// SSL_CTX_set_verify: notes what is wrong with the peer's certificate.
int note_verification(int is_good, X509_STORE_CTX* verification) noexcept;

/// SSL_CTX_set_cert_cb for clients: the server asks for our certificate. Refuses to send one that
/// would make the server take the proxy for a member of its cluster.
int note_certificate_request(SSL* ssl, void* none) noexcept;

/// SSL_CTX_set_tlsext_status_cb for clients: refuses a server whose stapled OCSP response (RFC
/// 6066, 8; RFC 6960) says that its certificate is revoked, or proves nothing. None is no fault.
int note_staple(SSL* ssl, void* none) noexcept;

/// False, with a reason, if the server's certificate and ours have the same cluster_attributes().
bool differs_from_members(Session& session);

}  // namespace idproxy::net::tls
