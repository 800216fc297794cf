#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "idproxy/base/buffer.hpp"
#include "idproxy/base/bytes.hpp"

/// TLS 1.2 and 1.3 as a machine of bytes: no socket, no thread, no clock but OpenSSL's own.
namespace idproxy::net::tls {

/// Whether clients have to show a certificate.
enum class ClientCertificate { none, optional, require };

/// Towards clients.
struct ServerOptions {
  std::string certificate_key_file;  ///< PEM: certificate, chain, private key without password
  /// PEM: who signs the certificates of clients. May hold lists of revoked certificates (X509 CRL),
  /// too: then one of each authority that signs a client's certificate has to be there.
  std::string ca_file;
  ClientCertificate client_certificate = ClientCertificate::none;
  bool operator==(const ServerOptions&) const = default;
};

/// Towards servers, as the options of a connection string say.
struct ClientOptions {
  std::string ca_file;               ///< PEM, as above; empty: those that the system trusts
  std::string certificate_key_file;  ///< PEM, as above; empty: none
  std::string password;              ///< of the private key; empty: none
  bool allow_invalid_certificates = false;
  bool allow_invalid_hostnames = false;
  bool operator==(const ClientOptions&) const = default;
};

/// One certificate of ours, for logs and metrics.
struct Certificate {
  std::string subject;  ///< RFC 2253: "CN=proxy,O=Example"
  std::string file;     ///< that it was read from
  std::chrono::sys_seconds not_before;
  std::chrono::sys_seconds not_after;
};

/// Why files cannot be used.
struct Fault {
  enum class File { certificate_key, ca };
  File file;
  std::string reason;  ///< can stand behind the file's name: "has no private key"
};

/// What all connections of one side share: certificates, keys, what is trusted. Immutable and
/// thread-safe; sessions keep theirs when a newer one takes its place.
class Context {
 public:
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  ~Context();

  /// For the side on which we are the server.
  [[nodiscard]] static boost::system::result<std::shared_ptr<const Context>, Fault> for_clients(
      const ServerOptions& options);
  /// For the side on which we are the client.
  [[nodiscard]] static boost::system::result<std::shared_ptr<const Context>, Fault> for_servers(
      const ClientOptions& options);

  /// Of the same side: the same files with the same certificates and lists, and the same demand.
  [[nodiscard]] bool is_equivalent_to(const Context& other) const;
  /// Our own first, then its chain, then those of the CA file. Empty where there are no files.
  [[nodiscard]] const std::vector<Certificate>& certificates() const;
  /// What an operator should know of our own certificate: expired, not valid yet, expires within 14
  /// days.
  [[nodiscard]] std::vector<std::string> warnings(std::chrono::sys_seconds now) const;

  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// One connection. Takes ciphertext from the front of `in`, which it shortens, and appends what the
/// peer is to be sent to `out`, also when it fails: the alert. Not thread-safe.
class Engine {
 public:
  enum class Status { done, need_more, ended, failed };

  /// Towards a client.
  [[nodiscard]] static std::unique_ptr<Engine> accept(std::shared_ptr<const Context> context);
  /// Towards the server `host`, a name (then SNI has it) or an IP address; its certificate must be
  /// for that. Where there is none (Unix sockets), the handshake fails unless names are not
  /// checked. It also fails if the server would take our certificate for that of another member.
  [[nodiscard]] static std::unique_ptr<Engine> connect(std::shared_ptr<const Context> context,
                                                       const std::string& host);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Call first with nothing, then with what has been received, until done or failed. What `in`
  /// still has then is for decrypt().
  [[nodiscard]] Status handshake(Bytes& in, Buffer& out);
  /// Into `to`, `written` bytes of it. need_more: all of `in` is used and nothing that could be
  /// decrypted is left; done: `to` is full, and something is left; ended: the peer has closed
  /// (close_notify).
  [[nodiscard]] Status decrypt(Bytes& in, std::span<std::uint8_t> to, std::size_t& written,
                               Buffer& out);
  /// False if it has failed.
  [[nodiscard]] bool encrypt(Bytes plain, Buffer& out);
  /// Tells the peer that nothing follows.
  void close_notify(Buffer& out);

  /// After `failed`, for the log: where a certificate is at fault, its subject and what is wrong
  /// with it.
  [[nodiscard]] const std::string& reason() const;
  /// Why the peer may have closed the connection without a word, for the log: mongod does that,
  /// after the handshake, to those whose certificate it refuses. Empty if it has sent anything
  /// since then.
  [[nodiscard]] std::string why_closed() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// True if these bytes, the first of a connection (at least 16 of them), are a ClientHello and no
/// message: 16 03 alone may be a message's length, so its op_code is none that exists.
[[nodiscard]] bool begins_tls(Bytes front);

}  // namespace idproxy::net::tls
