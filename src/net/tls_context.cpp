#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include "idproxy/base/input_file.hpp"
#include "idproxy/base/owned.hpp"
#include "net/tls_certificate.hpp"
#include "net/tls_session.hpp"

namespace idproxy::net::tls {
namespace {

// ---- the operator's PEM files ----------------------------------------------------------------

struct Unusable {
  std::string why;  // a predicate for the file's name: "has no private key"
};

constexpr const char* kNoCertificate = "has no certificate";

template <class T>
using Read = boost::system::result<T, Unusable>;

/// The content of a certificateKeyFile like mongod's: the certificate, then those that signed it;
/// the first one's private key may stand before, between or after them.
struct Identity {
  std::vector<OwnedCertificate> chain;  ///< not empty; the own certificate first
  OwnedKey key;
};

using OwnedCrl = Owned<X509_CRL, X509_CRL_free>;

/// The content of a CA file, or of one with certificate revocation lists.
struct Authorities {
  std::vector<OwnedCertificate> certificates;
  std::vector<OwnedCrl> revoked;
};

Read<std::string> read_text(const std::string& name) {
  auto text = read_file(name);
  if (!text) return Unusable{"cannot be read: " + text.error()};
  return {boost::system::in_place_value, *std::move(text)};
}

OwnedBio memory_of(std::string_view text) {
  return OwnedBio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// The password callback. Without one, OpenSSL would ask at the terminal.
struct Password {
  const std::string& text;
  bool asked = false;

  static int give(char* to, int size, int /*for_writing*/, void* self) {
    auto& password = *static_cast<Password*>(self);
    password.asked = true;
    if (password.text.empty() || password.text.size() > static_cast<std::size_t>(size)) return -1;
    std::ranges::copy(password.text, to);
    return static_cast<int>(password.text.size());
  }
};

/// Reads certificates and revocation lists; skips keys.
Read<Authorities> read_blocks(const std::string& text) {
  ERR_clear_error();
  const std::string none;
  Password password{none};
  const auto free = [](STACK_OF(X509_INFO) * blocks) {
    sk_X509_INFO_pop_free(blocks, X509_INFO_free);
  };
  const std::unique_ptr<STACK_OF(X509_INFO), decltype(free)> blocks(
      PEM_X509_INFO_read_bio(memory_of(text).get(), nullptr, Password::give, &password), free);
  if (!blocks) return Unusable{"cannot be read as PEM: " + error_text(ERR_peek_error())};
  Authorities found;
  for (int i = 0; i < sk_X509_INFO_num(blocks.get()); ++i) {
    X509_INFO* block = sk_X509_INFO_value(blocks.get(), i);
    if (block->x509) found.certificates.emplace_back(std::exchange(block->x509, nullptr));
    if (block->crl) found.revoked.emplace_back(std::exchange(block->crl, nullptr));
  }
  return found;
}

/// The position of the first private key.
std::size_t find_key(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ";
  constexpr std::string_view kKind = "PRIVATE KEY-----";
  for (std::size_t at = 0; (at = text.find(kBegin, at)) != text.npos; at += kBegin.size()) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (line.find(kKind) != line.npos) return at;
  }
  return text.npos;
}

Read<OwnedKey> read_key(std::string_view text, const std::string& password) {
  const std::size_t at = find_key(text);
  if (at == text.npos) return Unusable{"has no private key"};
  ERR_clear_error();
  Password given{password};
  OwnedKey key(
      PEM_read_bio_PrivateKey(memory_of(text.substr(at)).get(), nullptr, Password::give, &given));
  if (key) return key;
  if (!given.asked) {
    return Unusable{"has a private key that cannot be read: " + error_text(ERR_peek_error())};
  }
  return Unusable{password.empty() ? "has an encrypted private key, but no password is set"
                                   : "has a private key that the password does not decrypt"};
}

Read<Authorities> read_authorities(const std::string& file) {
  const Read<std::string> text = read_text(file);
  if (!text) return text.error();
  return read_blocks(*text);
}

/// `password` decrypts the private key; empty: none. Never asks at a terminal.
Read<Identity> read_identity(const std::string& file, const std::string& password) {
  const Read<std::string> text = read_text(file);
  if (!text) return text.error();
  Read<Authorities> blocks = read_blocks(*text);
  if (!blocks) return blocks.error();
  if (blocks->certificates.empty()) return Unusable{kNoCertificate};
  Read<OwnedKey> key = read_key(*text, password);
  if (!key) return key.error();
  Identity identity{std::move(blocks->certificates), std::move(*key)};
  X509* own = identity.chain.front().get();
  if (X509_check_private_key(own, identity.key.get()) != 1) {
    return Unusable{"has a private key that does not belong to its first certificate '" +
                    subject_text(own) + "'"};
  }
  return identity;
}

// ---- contexts --------------------------------------------------------------------------------

using Fallible = boost::system::result<void, Fault>;

// For TLS 1.2: only ephemeral keys and authenticated encryption, as in all suites of TLS 1.3.
constexpr const char* kCiphersOf12 = "ECDHE+AESGCM:ECDHE+CHACHA20";

Fault key_fault(std::string reason) {
  return {Fault::File::certificate_key, std::move(reason)};
}
Fault ca_fault(std::string reason) {
  return {Fault::File::ca, std::move(reason)};
}

OwnedSslContext make_ssl(const SSL_METHOD* method) {
  OwnedSslContext ssl(SSL_CTX_new(method));
  if (ssl == nullptr) throw std::bad_alloc();
  SSL_CTX* context = ssl.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, kCiphersOf12);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
  // No session resumption: each connection is verified, also after certificates were replaced.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  return ssl;
}

/// `digest`: X509_digest or X509_CRL_digest.
template <auto digest, class Owned>
void note_content(Context::Impl& impl, const std::vector<Owned>& from) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> hash;
  for (const Owned& one : from) {
    unsigned size = 0;
    if (digest(one.get(), EVP_sha256(), hash.data(), &size) != 1) throw std::bad_alloc();
    impl.content.append(hash.begin(), hash.begin() + size);
  }
}

void list(Context::Impl& impl, const std::vector<OwnedCertificate>& from, const std::string& file) {
  impl.content += file;
  note_content<X509_digest>(impl, from);
  for (const OwnedCertificate& one : from) {
    impl.certificates.push_back(
        {subject_text(one.get()), file, not_before(one.get()), not_after(one.get())});
  }
}

Fallible use_identity(Context::Impl& impl, const std::string& file, const std::string& password) {
  const Read<Identity> identity = read_identity(file, password);
  if (!identity) return key_fault(identity.error().why);
  X509* own = identity->chain.front().get();
  impl.own_subject = subject_text(own);
  ERR_clear_error();
  bool taken = SSL_CTX_use_certificate(impl.ssl.get(), own) == 1 &&
               SSL_CTX_use_PrivateKey(impl.ssl.get(), identity->key.get()) == 1;
  for (std::size_t i = 1; taken && i < identity->chain.size(); ++i) {
    taken = SSL_CTX_add1_chain_cert(impl.ssl.get(), identity->chain[i].get()) == 1;
  }
  if (!taken) {
    return key_fault("has an unusable certificate '" + impl.own_subject +
                     "': " + error_text(ERR_peek_error()));
  }
  impl.own_chain = identity->chain.size();
  impl.own_cluster_attributes = cluster_attributes(own);
  list(impl, identity->chain, file);
  return {};
}

/// If the own file holds a single certificate, takes the rest of its chain, without the root, from
/// the CA file, as mongod does. OpenSSL could do so by itself, but would do it in each handshake
/// and send the root, too.
void complete_chain(Context::Impl& impl) {
  if (impl.own_chain != 1) return;
  SSL_CTX_build_cert_chain(impl.ssl.get(), SSL_BUILD_CHAIN_FLAG_NO_ROOT |
                                               SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR |
                                               SSL_BUILD_CHAIN_FLAG_CLEAR_ERROR);
}

/// Refuses the certificates that these lists revoke, and those of authorities without a list.
void refuse(Context::Impl& impl, const std::vector<OwnedCrl>& lists) {
  X509_STORE* store = SSL_CTX_get_cert_store(impl.ssl.get());
  for (const OwnedCrl& one : lists) X509_STORE_add_crl(store, one.get());
  if (!lists.empty()) X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  note_content<X509_CRL_digest>(impl, lists);
}

/// Trusts the authorities in `file`, and lists their names for clients to choose a certificate by.
Fallible trust(Context::Impl& impl, const std::string& file) {
  const Read<Authorities> authorities = read_authorities(file);
  if (!authorities) return ca_fault(authorities.error().why);
  if (authorities->certificates.empty()) return ca_fault(kNoCertificate);
  X509_STORE* store = SSL_CTX_get_cert_store(impl.ssl.get());
  for (const OwnedCertificate& one : authorities->certificates) {
    X509_STORE_add_cert(store, one.get());
    SSL_CTX_add_client_CA(impl.ssl.get(), one.get());
  }
  refuse(impl, authorities->revoked);
  impl.trusted = "the CA file " + file;
  list(impl, authorities->certificates, file);
  return {};
}

/// Refuses the certificates that the lists in `file` revoke.
Fallible refuse(Context::Impl& impl, const std::string& file) {
  if (file.empty()) return {};
  const Read<Authorities> lists = read_authorities(file);
  if (!lists) return Fault{Fault::File::crl, lists.error().why};
  if (lists->revoked.empty()) {
    return Fault{Fault::File::crl, "has no certificate revocation list"};
  }
  refuse(impl, lists->revoked);
  impl.trusted += " with the revocation lists of " + file;
  impl.content += file;
  return {};
}

int mode_of(ClientCertificate certificate) {
  switch (certificate) {
    case ClientCertificate::none:
      break;
    case ClientCertificate::optional:
      return SSL_VERIFY_PEER;
    case ClientCertificate::require:
      return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  }
  return SSL_VERIFY_NONE;
}

}  // namespace

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::~Context() = default;

boost::system::result<std::shared_ptr<const Context>, Fault> Context::for_clients(
    const ServerOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->ssl = make_ssl(TLS_server_method());
  if (const auto used = use_identity(*impl, options.certificate_key_file, {}); !used) {
    return used.error();
  }
  const bool asks = options.client_certificate != ClientCertificate::none;
  if (asks && options.ca_file.empty()) {
    return ca_fault("is missing: client certificates are verified with it");
  }
  if (!options.ca_file.empty()) {
    if (const auto trusted = trust(*impl, options.ca_file); !trusted) return trusted.error();
  }
  if (const auto refused = refuse(*impl, options.crl_file); !refused) return refused.error();
  complete_chain(*impl);
  impl->content += std::to_string(static_cast<int>(options.client_certificate));
  SSL_CTX_set_verify(impl->ssl.get(), mode_of(options.client_certificate), note_verification);
  return std::make_shared<const Context>(std::move(impl));
}

boost::system::result<std::shared_ptr<const Context>, Fault> Context::for_servers(
    const ClientOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->ssl = make_ssl(TLS_client_method());
  if (!options.certificate_key_file.empty()) {
    const auto used = use_identity(*impl, options.certificate_key_file, options.password);
    if (!used) return used.error();
  }
  if (!options.ca_file.empty()) {
    if (const auto trusted = trust(*impl, options.ca_file); !trusted) return trusted.error();
  } else {
    SSL_CTX_set_default_verify_paths(impl->ssl.get());
    impl->trusted = "the system";
  }
  if (const auto refused = refuse(*impl, options.crl_file); !refused) return refused.error();
  complete_chain(*impl);
  const bool checks = !options.allow_invalid_certificates;
  impl->checks_names = checks && !options.allow_invalid_hostnames;
  SSL_CTX_set_verify(impl->ssl.get(), checks ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                     note_verification);
  if (checks && !options.ignore_staple) ask_for_staple(impl->ssl.get(), note_staple);
  SSL_CTX_set_cert_cb(impl->ssl.get(), note_certificate_request, nullptr);
  return std::make_shared<const Context>(std::move(impl));
}

bool Context::is_equivalent_to(const Context& other) const {
  return impl_->content == other.impl_->content;
}

const std::vector<Certificate>& Context::certificates() const {
  return impl_->certificates;
}

std::vector<std::string> Context::warnings(std::chrono::sys_seconds now) const {
  if (impl_->own_chain == 0) return {};
  const Certificate& own = impl_->certificates.front();
  const std::string name = "certificate '" + own.subject + "' in " + own.file;
  if (now > own.not_after) return {name + " expired on " + time_text(own.not_after)};
  if (now < own.not_before) return {name + " is not valid before " + time_text(own.not_before)};
  if (own.not_after - now <= kExpiresSoon)
    return {name + " expires on " + time_text(own.not_after)};
  return {};
}

}  // namespace idproxy::net::tls
