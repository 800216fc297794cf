#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <vector>

#include "net/openssl.hpp"

/// Reads the operator's PEM files. Faults are predicates for the file's name: "has no private key".
namespace idproxy::net::tls {

struct Unusable {
  std::string why;
};

template <class T>
using Read = boost::system::result<T, Unusable>;

/// The content of a certificateKeyFile like mongod's: the certificate, then those that signed it;
/// the first one's private key may stand before, between or after them.
struct Identity {
  std::vector<OwnedCertificate> chain;  ///< not empty; the own certificate first
  OwnedKey key;
};

/// `password` decrypts the private key; empty: none. Never asks at a terminal.
Read<Identity> read_identity(const std::string& file, const std::string& password);

using OwnedCrl = std::unique_ptr<X509_CRL, Free<X509_CRL_free>>;

/// The content of a CA file: certificates, and certificate revocation lists.
struct Authorities {
  std::vector<OwnedCertificate> certificates;  ///< not empty
  std::vector<OwnedCrl> revoked;
};

Read<Authorities> read_authorities(const std::string& file);

}  // namespace idproxy::net::tls
