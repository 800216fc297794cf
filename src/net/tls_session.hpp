#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "idproxy/net/tls.hpp"
#include "openssl.hpp"
#include "tls_context_impl.hpp"
#include "tls_window.hpp"

namespace idproxy::net::tls {

/// The part that we have.
enum class Role : std::uint8_t { server, client };

/// What there is of one connection.
struct Session {
  /// A peer that has us derive keys or answer again and again, and says nothing, is one that wants
  /// us to be busy. As many as BoringSSL allows.
  static constexpr std::uint8_t kMostIdleMessages = 32;

  /// Throws std::bad_alloc.
  Session(std::shared_ptr<const Context> context, Role role);
  // OpenSSL has its address.
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::shared_ptr<const Context> context;
  Role role;
  bool handshake_done = false;
  bool failed = false;
  bool certificate_requested = false;  ///< by the server
  bool has_received = false;           ///< plaintext
  std::uint8_t idle_messages = 0;      ///< of TLS itself, since the handshake or the last plaintext
  std::uint8_t front_size = 0;
  std::array<std::uint8_t, 16> front{};  ///< the peer's first bytes: what it speaks, if not TLS
  std::string host;                      ///< of the server, for texts; empty after the handshake
  std::string reason;
  Window window;
  OwnedSsl ssl;

  [[nodiscard]] bool is_server() const { return role == Role::server; }
  /// "the client"
  [[nodiscard]] std::string peer() const { return is_server() ? "the client" : "the server"; }
  [[nodiscard]] Bytes first_bytes() const { return {front.data(), front_size}; }
};

/// The one that `ssl` belongs to.
Session& session_of(const SSL* ssl);

}  // namespace idproxy::net::tls
