#pragma once

#include <cstdint>
#include <memory>

#include "certificates.hpp"
#include "stream.hpp"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace idproxy::bench {

enum class TlsVersion { v1_2, v1_3 };

/// How the load generator and the stub server speak to the proxies between them.
///
/// With TLS both ends know one version, one cipher and one group, so that every proxy has the same
/// work to do on both of its sides; and the stub server lets no session be resumed, so that every
/// handshake is a full one.
class Transport {
 public:
  Transport() = default;  ///< plain
  /// Plain, over the proxies' Unix sockets, and by TCP to the stub server.
  [[nodiscard]] static Transport over_unix_sockets();
  /// Throws std::runtime_error.
  Transport(TlsVersion version, TlsSides sides, const CertificateFiles& files);

  /// A blocking connection to a port of 127.0.0.1, or its Unix socket, before its handshake. Throws
  /// std::system_error.
  Stream connect(std::uint16_t port) const;

  /// The server's end of what has been accepted.
  Stream accept(Fd fd) const;

 private:
  struct FreeContext {
    void operator()(ssl_ctx_st* context) const;
  };
  using Context = std::unique_ptr<ssl_ctx_st, FreeContext>;
  static Context make_context(TlsVersion version);

  bool unix_sockets_ = false;
  Context client_;  ///< none: plain; the same of server_
  Context server_;
};

}  // namespace idproxy::bench
