#pragma once

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Throw-away keys, certificates and revocation lists; P-256, since such keys are made fastest.
namespace idproxy::test {

/// A directory for a test's files; the destructor removes it.
class TemporaryFiles {
 public:
  TemporaryFiles() {
    std::string name = (std::filesystem::temp_directory_path() / "idproxy-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    directory_ = name;
  }
  ~TemporaryFiles() { std::filesystem::remove_all(directory_); }
  TemporaryFiles(const TemporaryFiles&) = delete;
  TemporaryFiles& operator=(const TemporaryFiles&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return directory_ / name; }
  /// Writes a file and returns its path.
  [[nodiscard]] std::string add(const std::string& name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  std::filesystem::path directory_;
};

struct CertificateWish {
  std::string subject;                  ///< "CN=a,O=b"; "=" and "," cannot be escaped
  std::vector<std::string> names = {};  ///< subjectAltName: DNS names and IP addresses
  /// Empty: no such extension, the certificate is valid for clients and servers.
  std::string extended_key_usage = "serverAuth,clientAuth";
  std::chrono::seconds from_now = std::chrono::hours(-1);        ///< start of validity
  std::chrono::seconds until_now = std::chrono::hours(90 * 24);  ///< end of validity
  bool is_authority = false;
  unsigned rsa_bits = 0;  ///< 0: P-256
};

/// A certificate with its key.
class Certified {
 public:
  /// `issuer` signs the certificate; null: self-signed.
  Certified(const CertificateWish& wish, const Certified* issuer)
      : key_(wish.rsa_bits != 0 ? EVP_RSA_gen(wish.rsa_bits) : EVP_EC_gen("P-256"), EVP_PKEY_free),
        certificate_(X509_new(), X509_free) {
    X509* made = certificate_.get();
    X509_set_version(made, X509_VERSION_3);
    static long serial = 0;
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(made), static_cast<long>(wish.from_now.count()));
    X509_gmtime_adj(X509_getm_notAfter(made), static_cast<long>(wish.until_now.count()));
    set_subject(wish.subject);
    X509_set_issuer_name(made, X509_get_subject_name((issuer != nullptr ? *issuer : *this).x509()));
    X509_set_pubkey(made, key_.get());
    set_extensions(wish);
    if (X509_sign(made, (issuer != nullptr ? *issuer : *this).key(), EVP_sha256()) == 0) {
      throw std::runtime_error("no certificate");
    }
  }

  [[nodiscard]] X509* x509() const { return certificate_.get(); }
  [[nodiscard]] EVP_PKEY* key() const { return key_.get(); }

  [[nodiscard]] std::string pem() const {
    const Memory memory(BIO_new(BIO_s_mem()), BIO_free_all);
    PEM_write_bio_X509(memory.get(), x509());
    return text(memory);
  }
  /// PKCS #8; encrypted if `password` is not empty.
  [[nodiscard]] std::string key_pem(const std::string& password = {}) const {
    const Memory memory(BIO_new(BIO_s_mem()), BIO_free_all);
    std::string copy = password;
    PEM_write_bio_PKCS8PrivateKey(memory.get(), key(),
                                  password.empty() ? nullptr : EVP_aes_256_cbc(),
                                  password.empty() ? nullptr : copy.data(),
                                  static_cast<int>(password.size()), nullptr, nullptr);
    return text(memory);
  }
  /// "BEGIN EC PRIVATE KEY", the old form; encrypted if `password` is not empty.
  [[nodiscard]] std::string old_key_pem(const std::string& password = {}) const {
    const Memory memory(BIO_new(BIO_s_mem()), BIO_free_all);
    std::string copy = password;
    PEM_write_bio_PrivateKey_traditional(memory.get(), key(),
                                         password.empty() ? nullptr : EVP_aes_256_cbc(),
                                         reinterpret_cast<unsigned char*>(copy.data()),
                                         static_cast<int>(copy.size()), nullptr, nullptr);
    return text(memory);
  }
  /// Certificate and key, the content of a certificateKeyFile.
  [[nodiscard]] std::string file() const { return pem() + key_pem(); }

  using Memory = std::unique_ptr<BIO, void (*)(BIO*)>;
  static std::string text(const Memory& memory) {
    const char* data = nullptr;
    const auto size = static_cast<std::size_t>(BIO_ctrl(memory.get(), BIO_CTRL_INFO, 0, &data));
    return {data, size};
  }

 private:
  /// RFC 2253 names the last component first.
  void set_subject(const std::string& subject) {
    X509_NAME* name = X509_get_subject_name(x509());
    for (std::size_t at = 0; at < subject.size();) {
      const std::size_t end = std::min(subject.find(',', at), subject.size());
      const std::size_t equals = subject.find('=', at);
      const std::string kind = subject.substr(at, equals - at);
      const std::string value = subject.substr(equals + 1, end - equals - 1);
      X509_NAME_add_entry_by_txt(name, kind.c_str(), MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(value.data()),
                                 static_cast<int>(value.size()), 0, 0);
      at = end + 1;
    }
  }

  void set_extensions(const CertificateWish& wish) {
    std::string names;
    for (const std::string& name : wish.names) {
      const bool address =
          name.find(':') != name.npos || name.find_first_not_of("0123456789.") == name.npos;
      names += (names.empty() ? "" : ",") + std::string(address ? "IP:" : "DNS:") + name;
    }
    if (!names.empty()) add(NID_subject_alt_name, names);
    add(NID_basic_constraints, wish.is_authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (!wish.is_authority && !wish.extended_key_usage.empty()) {
      add(NID_ext_key_usage, wish.extended_key_usage);
    }
  }

  void add(int kind, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    if (extension == nullptr) throw std::runtime_error("no extension " + value);
    X509_add_ext(x509(), extension, -1);
    X509_EXTENSION_free(extension);
  }

  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
  std::unique_ptr<X509, void (*)(X509*)> certificate_;
};

/// An authority, which signs certificates.
class Authority {
 public:
  explicit Authority(const std::string& subject = "CN=Test CA,O=Tests")
      : own_({.subject = subject, .is_authority = true}, nullptr) {}
  /// An intermediate authority, signed by `issuer`.
  Authority(const std::string& subject, const Authority& issuer)
      : own_({.subject = subject, .is_authority = true}, &issuer.own_) {}

  [[nodiscard]] Certified issue(const CertificateWish& wish) const { return {wish, &own_}; }
  [[nodiscard]] const Certified& own() const { return own_; }
  [[nodiscard]] std::string pem() const { return own_.pem(); }

  /// A revocation list (PEM) with these certificates, valid until `until_now`.
  [[nodiscard]] std::string revoke(const std::vector<const Certified*>& revoked,
                                   std::chrono::seconds until_now = std::chrono::hours(24)) const {
    const std::unique_ptr<X509_CRL, void (*)(X509_CRL*)> crl(X509_CRL_new(), X509_CRL_free);
    X509_CRL_set_version(crl.get(), X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(own_.x509()));
    const std::unique_ptr<ASN1_TIME, void (*)(ASN1_TIME*)> time(ASN1_TIME_new(), ASN1_TIME_free);
    X509_gmtime_adj(time.get(), -7200);
    X509_CRL_set1_lastUpdate(crl.get(), time.get());
    for (const Certified* one : revoked) {
      X509_REVOKED* entry = X509_REVOKED_new();
      X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(one->x509()));
      X509_REVOKED_set_revocationDate(entry, time.get());
      X509_CRL_add0_revoked(crl.get(), entry);
    }
    X509_gmtime_adj(time.get(), static_cast<long>(until_now.count()));
    X509_CRL_set1_nextUpdate(crl.get(), time.get());
    X509_CRL_sign(crl.get(), own_.key(), EVP_sha256());
    const Certified::Memory memory(BIO_new(BIO_s_mem()), BIO_free_all);
    PEM_write_bio_X509_CRL(memory.get(), crl.get());
    return Certified::text(memory);
  }

  /// An OCSP response (DER) that says `status`, V_OCSP_CERTSTATUS_…, of a certificate, valid from
  /// two hours ago until `until_now`. `issuer`: who signed that, if it is not this authority.
  [[nodiscard]] std::string answer(const Certified& about, int status,
                                   std::chrono::seconds until_now = std::chrono::hours(24),
                                   const EVP_MD* digest = EVP_sha1(),
                                   const Authority* issuer = nullptr) const {
    const X509* of = issuer == nullptr ? own_.x509() : issuer->own_.x509();
    OCSP_BASICRESP* basic = OCSP_BASICRESP_new();
    OCSP_CERTID* id = OCSP_cert_to_id(digest, about.x509(), of);
    ASN1_TIME* from = X509_gmtime_adj(nullptr, -7200);
    ASN1_TIME* until = X509_gmtime_adj(nullptr, static_cast<long>(until_now.count()));
    OCSP_basic_add1_status(basic, id, status, 0, from, from, until);
    OCSP_basic_sign(basic, own_.x509(), own_.key(), EVP_sha256(), nullptr, OCSP_NOCERTS);
    OCSP_RESPONSE* response = OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic);
    std::string bytes = der(response);
    OCSP_RESPONSE_free(response);
    ASN1_TIME_free(until);
    ASN1_TIME_free(from);
    OCSP_CERTID_free(id);
    OCSP_BASICRESP_free(basic);
    return bytes;
  }
  static std::string der(const OCSP_RESPONSE* response) {
    std::string bytes(static_cast<std::size_t>(i2d_OCSP_RESPONSE(response, nullptr)), '\0');
    auto* at = reinterpret_cast<unsigned char*>(bytes.data());
    i2d_OCSP_RESPONSE(response, &at);
    return bytes;
  }

 private:
  Certified own_;
};

}  // namespace idproxy::test
