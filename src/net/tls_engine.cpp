#include <arpa/inet.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <utility>

#include "net/tls_reason.hpp"
#include "net/tls_session.hpp"

namespace idproxy::net::tls {
namespace {

// The bytes that a record adds to its content: header, explicit nonce or content type, tag.
constexpr std::size_t kRecordOverhead = 5 + 8 + 16;
constexpr std::size_t kLargestRecord = 16384;

/// Lets the session read `in` and write `out` during one call of OpenSSL.
class Opened {
 public:
  Opened(Session& session, Bytes& in, Buffer& out) : session_(session) {
    session.window = {&in, &out};
    // Errors that another connection left in this thread's queue would be taken for this one's.
    if (ERR_peek_error() != 0) ERR_clear_error();
  }
  ~Opened() { session_.window = {}; }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  Session& session_;
};

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> parsed{};
  return ::inet_pton(AF_INET, host.c_str(), parsed.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), parsed.data()) == 1;
}

/// The host as in certificates and SNI: without the root's trailing dot and an address's zone.
std::string plain_host(std::string host) {
  if (host.ends_with('.')) host.pop_back();
  if (const std::size_t zone = host.find('%');
      zone != host.npos && is_address(host.substr(0, zone)))
    host.resize(zone);
  return host;
}

/// Sets the name or address to verify. Fails the session if there is none to verify.
void expect_host(Session& session) {
  const bool checks = session.context->impl().checks_names;
  const std::string& host = session.host;
  SSL* ssl = session.ssl.get();
  bool taken = !host.empty();
  if (taken && is_address(host)) {
    if (checks) taken = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
  } else if (taken) {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    // May fail: no certificate can hold a name that is too long for SNI.
    set_sni(ssl, host);
    if (checks) taken = SSL_set1_host(ssl, host.c_str()) == 1;
  }
  if (taken || !checks) return;
  session.failed = true;
  session.reason = "there is no host name to compare with the server's certificate";
}

}  // namespace

struct Engine::Impl : Session {
  using Session::Session;

  /// Handles a call of OpenSSL that returned `result` and did not succeed.
  Status refused(int result) {
    const int error = SSL_get_error(ssl.get(), result);
    if (error == SSL_ERROR_WANT_READ) return Status::need_more;
    if (error == SSL_ERROR_ZERO_RETURN && handshake_done) return Status::ended;
    failed = true;
    if (window.shut) reason = peer() + " sends only TLS messages and no data";
    if (reason.empty()) reason = failure_text(*this, error);
    return Status::failed;
  }

  void keep_first_bytes(Bytes in) {
    const std::size_t n = std::min(in.size(), front.size() - front_size);
    std::copy_n(in.begin(), n, front.begin() + front_size);
    front_size = static_cast<std::uint8_t>(front_size + n);
  }
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

std::unique_ptr<Engine> Engine::accept(std::shared_ptr<const Context> context) {
  return std::unique_ptr<Engine>(
      new Engine(std::make_unique<Impl>(std::move(context), Role::server)));
}

std::unique_ptr<Engine> Engine::connect(std::shared_ptr<const Context> context,
                                        const std::string& host) {
  auto impl = std::make_unique<Impl>(std::move(context), Role::client);
  impl->host = plain_host(host);
  expect_host(*impl);
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

Engine::Status Engine::handshake(Bytes& in, Buffer& out) {
  Impl& session = *impl_;
  if (session.failed) return Status::failed;
  if (session.handshake_done) return Status::done;
  session.keep_first_bytes(in);
  const Opened opened(session, in, out);
  const int result = SSL_do_handshake(session.ssl.get());
  if (result != 1) return session.refused(result);
  if (!session.is_server() && !differs_from_members(session)) {
    session.failed = true;
    return Status::failed;
  }
  session.handshake_done = true;
  session.host = std::string();
  return Status::done;
}

Engine::Status Engine::decrypt(Bytes& in, std::span<std::uint8_t> to, std::size_t& written,
                               Buffer& out) {
  written = 0;
  Impl& session = *impl_;
  if (session.failed) return Status::failed;
  const Opened opened(session, in, out);
  while (written < to.size()) {
    std::size_t n = 0;
    const int result = SSL_read_ex(session.ssl.get(), to.data() + written, to.size() - written, &n);
    if (result != 1) return session.refused(result);
    written += n;
    session.has_received = true;
    session.idle_messages = 0;
    // Another read would make OpenSSL allocate a record's buffer again, only to find nothing.
    if (in.empty() && SSL_has_pending(session.ssl.get()) == 0) return Status::need_more;
  }
  return Status::done;
}

bool Engine::encrypt(Bytes plain, Buffer& out) {
  Impl& session = *impl_;
  if (session.failed) return false;
  const std::size_t records = plain.size() / kLargestRecord + 1;
  const std::size_t before = out.size();
  out.extend(plain.size() + records * kRecordOverhead);  // allocates once, not per record
  out.truncate(before);
  Bytes nothing;
  const Opened opened(session, nothing, out);
  std::size_t n = 0;
  const int result = SSL_write_ex(session.ssl.get(), plain.data(), plain.size(), &n);
  if (result != 1) static_cast<void>(session.refused(result));
  return result == 1;
}

void Engine::close_notify(Buffer& out) {
  Impl& session = *impl_;
  if (session.failed || !session.handshake_done) return;
  Bytes nothing;
  const Opened opened(session, nothing, out);
  static_cast<void>(SSL_shutdown(session.ssl.get()));
}

const std::string& Engine::reason() const {
  return impl_->reason;
}

std::string Engine::why_closed() const {
  return closing_text(*impl_);
}

}  // namespace idproxy::net::tls
