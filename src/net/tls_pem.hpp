#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <vector>

#include "openssl.hpp"

/// The PEM files of operators. What is wrong with one is said so that it can stand behind its name:
/// "has no private key".
namespace idproxy::net::tls {

struct Unusable {
  std::string why;
};

template <class T>
using Read = boost::system::result<T, Unusable>;

/// A certificateKeyFile, as mongod's: the certificate, then those that signed it, and the key of
/// the first, in any order among each other.
struct Identity {
  std::vector<OwnedCertificate> chain;  ///< not empty; our own first
  OwnedKey key;
};

/// `password` of the private key; empty: none. Never asks at a terminal.
Read<Identity> read_identity(const std::string& file, const std::string& password);

using OwnedCrl = std::unique_ptr<X509_CRL, Free<X509_CRL_free>>;

/// A CA file: certificates, and lists of those that are revoked.
struct Authorities {
  std::vector<OwnedCertificate> certificates;  ///< not empty
  std::vector<OwnedCrl> revoked;
};

Read<Authorities> read_authorities(const std::string& file);

}  // namespace idproxy::net::tls
