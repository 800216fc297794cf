#include "net/tls_pem.hpp"

#include <openssl/pem.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "idproxy/base/input_file.hpp"
#include "net/tls_certificate.hpp"

namespace idproxy::net::tls {
namespace {

Read<std::string> read_text(const std::string& name) {
  auto text = read_file(name);
  if (!text) return Unusable{"cannot be read: " + text.error().message()};
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
  if (found.certificates.empty()) return Unusable{"has no certificate"};
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

}  // namespace

Read<Authorities> read_authorities(const std::string& file) {
  const Read<std::string> text = read_text(file);
  if (!text) return text.error();
  return read_blocks(*text);
}

Read<Identity> read_identity(const std::string& file, const std::string& password) {
  const Read<std::string> text = read_text(file);
  if (!text) return text.error();
  Read<Authorities> blocks = read_blocks(*text);
  if (!blocks) return blocks.error();
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

}  // namespace idproxy::net::tls
