#pragma once

#include <string>

#include "server.hpp"

namespace idproxy::bench {

/// Which sides of the proxies have TLS: both, or only the client's.
enum class TlsSides { both, client };

/// PEM files for a run with TLS: one certificate for the address 127.0.0.1, which the proxies show
/// to clients and the stub server to them, and the authority that has signed it. RSA, 2048 bits.
struct CertificateFiles {
  std::string ca;
  std::string certificate_key;  ///< certificate, then its private key
};

/// Makes them in `directory`, valid for a month. Throws std::runtime_error.
CertificateFiles make_certificates(const TemporaryDirectory& directory);

}  // namespace idproxy::bench
