#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "idproxy/base/bytes.hpp"

/// TLS 1.2 and 1.3 as a transformation of bytes: without sockets, threads, or a clock other than
/// OpenSSL's own.
namespace idproxy::net::tls {

/// Whether clients must present a certificate.
enum class ClientCertificate { none, optional, require };

/// TLS with clients: the proxy is the TLS server.
struct ServerOptions {
  std::string certificate_key_file;  ///< PEM: certificate, chain, private key without password
  /// PEM: the authorities that sign client certificates. If the file also holds certificate
  /// revocation lists, it must hold one for each authority that signs a client's certificate.
  std::string ca_file;
  ClientCertificate client_certificate = ClientCertificate::none;
  std::string crl_file{};  ///< PEM: such lists, in a file of their own; empty: none
  bool operator==(const ServerOptions&) const = default;
};

/// TLS with servers: the proxy is the TLS client, with the options of a connection string.
struct ClientOptions {
  std::string ca_file;               ///< PEM, as above; empty: the authorities the system trusts
  std::string certificate_key_file;  ///< PEM, as above; empty: none
  std::string password;              ///< of the private key; empty: none
  bool allow_invalid_certificates = false;
  bool allow_invalid_hostnames = false;
  std::string crl_file{};      ///< PEM, as above; empty: none
  bool ignore_staple = false;  ///< do not ask servers for a stapled OCSP response
  bool operator==(const ClientOptions&) const = default;
};

/// A certificate from the proxy's files, for logs and metrics.
struct Certificate {
  std::string subject;  ///< RFC 2253: "CN=proxy,O=Example"
  std::string file;     ///< the file it was read from
  std::chrono::sys_seconds not_before;
  std::chrono::sys_seconds not_after;
};

/// Why a file cannot be used.
struct Fault {
  enum class File { certificate_key, ca, crl };
  File file;
  std::string reason;  ///< a predicate for the file's name: "has no private key"
};

/// A proxy warns of a certificate that expires within this time.
inline constexpr std::chrono::days kExpiresSoon{14};
/// Who looks ahead, as `doctor` does, names it for so long.
inline constexpr std::chrono::days kExpiresInSight{30};

/// The certificates, keys and trusted authorities of all connections of one side. Immutable and
/// thread-safe. Sessions keep their context when a reload replaces it.
class Context {
 public:
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  ~Context();

  /// For connections with clients: the proxy is the TLS server.
  [[nodiscard]] static boost::system::result<std::shared_ptr<const Context>, Fault> for_clients(
      const ServerOptions& options);
  /// For connections with servers: the proxy is the TLS client.
  [[nodiscard]] static boost::system::result<std::shared_ptr<const Context>, Fault> for_servers(
      const ClientOptions& options);

  /// True if both, which are of the same side, have the same files with the same certificates and
  /// revocation lists, and the same ClientCertificate mode.
  [[nodiscard]] bool is_equivalent_to(const Context& other) const;
  /// The proxy's own certificate, then its chain, then those of the CA file. Empty without files.
  [[nodiscard]] const std::vector<Certificate>& certificates() const;
  /// Warnings about the proxy's own certificate: it has expired, is not valid yet, or expires
  /// soon.
  [[nodiscard]] std::vector<std::string> warnings(std::chrono::sys_seconds now) const;

  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// The TLS state of one connection. Its functions consume ciphertext from the front of `in` and
/// append to `out` what the caller must send to the peer; after a failure this is the alert. Not
/// thread-safe.
class Engine {
 public:
  enum class Status { done, need_more, ended, failed };

  /// For a connection from a client.
  [[nodiscard]] static std::unique_ptr<Engine> accept(std::shared_ptr<const Context> context);
  /// For a connection to the server `host`, a name (sent as SNI) or an IP address, which the
  /// server's certificate must be valid for. If `host` is empty (Unix sockets), the handshake fails
  /// unless the options switch the check of names off. It also fails if the server would mistake
  /// the proxy's certificate for that of a member of its cluster.
  [[nodiscard]] static std::unique_ptr<Engine> connect(std::shared_ptr<const Context> context,
                                                       const std::string& host);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Call it with an empty `in` first, then with received bytes, until it returns done or failed.
  /// Pass what is left in `in` after done to decrypt().
  [[nodiscard]] Status handshake(Bytes& in, Buffer& out);
  /// Decrypts into the first `written` bytes of `to`. need_more: `in` is used up, and nothing that
  /// can be decrypted is left; done: `to` is full, and there is more; ended: the peer has sent
  /// close_notify.
  [[nodiscard]] Status decrypt(Bytes& in, std::span<std::uint8_t> to, std::size_t& written,
                               Buffer& out);
  /// False after a failure.
  [[nodiscard]] bool encrypt(Bytes plain, Buffer& out);
  /// Tells the peer that no more data follows.
  void close_notify(Buffer& out);

  /// Why the session failed, for the log. If a certificate is at fault, this names its subject and
  /// what is wrong with it.
  [[nodiscard]] const std::string& reason() const;
  /// The likely reason why the peer closed the connection without an alert, for the log: mongod
  /// does so after the handshake if it refuses the certificate. Empty if the peer has sent data
  /// since the handshake.
  [[nodiscard]] std::string why_closed() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// True if the first bytes of a connection, at least 16 of them, are a ClientHello and not a
/// MongoDB message. 16 03 could also begin a message's length, so this also checks that the op code
/// is none that exists.
[[nodiscard]] bool begins_tls(Bytes front);

}  // namespace idproxy::net::tls
