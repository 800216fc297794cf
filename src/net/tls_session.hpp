#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "idproxy/net/tls.hpp"
#include "net/openssl.hpp"
#include "net/tls_context_impl.hpp"
#include "net/tls_window.hpp"

namespace idproxy::net::tls {

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
Session& session_of(const SSL* ssl);

}  // namespace idproxy::net::tls
