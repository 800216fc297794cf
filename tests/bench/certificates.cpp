#include "certificates.hpp"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "sockets.hpp"

namespace idproxy::bench {
namespace {

constexpr unsigned kKeyBits = 2048;
constexpr long kSecondsBefore = 3600;  // clocks of one machine agree; a corrected one may go back
constexpr long kSecondsAfter = 30 * 24 * 3600;  // the proxy warns of the last 14 days
constexpr long kVersion3 = 2;                   // X.509 counts from 0

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

/// OpenSSL's functions return 1, a size, or a pointer when they succeed.
template <typename T>
T require(T result, const char* what) {
  if (!(result > T{})) {
    throw std::runtime_error(std::string(what) + ": " + ERR_error_string(ERR_get_error(), nullptr));
  }
  return result;
}

struct Identity {
  Owned<EVP_PKEY> key;
  Owned<X509> certificate;
};

void add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Owned<X509_EXTENSION> extension(
      require(X509V3_EXT_conf_nid(nullptr, &context, nid, value), "X509V3_EXT_conf_nid"));
  require(X509_add_ext(certificate, extension.get(), -1), "X509_add_ext");
}

/// Not signed yet.
Identity make_identity(const char* common_name, std::int64_t serial) {
  Identity made{Owned<EVP_PKEY>(require(EVP_RSA_gen(kKeyBits), "EVP_RSA_gen")),
                Owned<X509>(require(X509_new(), "X509_new"))};
  X509* const certificate = made.certificate.get();
  X509_set_version(certificate, kVersion3);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kSecondsBefore);
  X509_gmtime_adj(X509_getm_notAfter(certificate), kSecondsAfter);
  X509_set_pubkey(certificate, made.key.get());
  const auto* const name = reinterpret_cast<const unsigned char*>(common_name);
  require(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, name,
                                     -1, -1, 0),
          "X509_NAME_add_entry_by_txt");
  return made;
}

void sign(X509* certificate, const Identity& issuer) {
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer.certificate.get()));
  require(X509_sign(certificate, issuer.key.get(), EVP_sha256()), "X509_sign");
}

/// For this user only: the proxy refuses a private key that everybody can read.
Owned<std::FILE> create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw_errno("open");
  return Owned<std::FILE>(::fdopen(fd, "w"));
}

}  // namespace

CertificateFiles make_certificates(const TemporaryDirectory& directory) {
  const Identity ca = make_identity("bench authority", 1);
  X509* const authority = ca.certificate.get();
  add_extension(authority, authority, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(authority, authority, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(authority, authority, NID_subject_key_identifier, "hash");
  sign(authority, ca);

  const Identity leaf = make_identity("bench", 2);
  X509* const certificate = leaf.certificate.get();
  add_extension(certificate, authority, NID_subject_alt_name, "IP:127.0.0.1");
  add_extension(certificate, authority, NID_ext_key_usage, "serverAuth");
  sign(certificate, ca);

  const CertificateFiles files{directory / "ca.pem", directory / "bench.pem"};
  require(PEM_write_X509(create(files.ca).get(), authority), "PEM_write_X509");
  const Owned<std::FILE> file = create(files.certificate_key);
  require(PEM_write_X509(file.get(), certificate), "PEM_write_X509");
  require(PEM_write_PrivateKey(file.get(), leaf.key.get(), nullptr, nullptr, 0, nullptr, nullptr),
          "PEM_write_PrivateKey");
  return files;
}

}  // namespace idproxy::bench
