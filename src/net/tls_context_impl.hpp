#pragma once

#include "idproxy/net/tls.hpp"
#include "openssl.hpp"

namespace idproxy::net::tls {

struct Context::Impl {
  OwnedSslContext ssl;
  std::vector<Certificate> certificates;
  std::size_t own_chain = 0;  ///< so many of `certificates`, the first ones, are of our own file
  std::string own_subject;    ///< empty: no certificate of our own
  std::vector<std::string> own_cluster_attributes;
  std::string content;  ///< digests of all certificates and lists, their files, and the mode
  std::string trusted;  ///< whose certificates: "the CA file /etc/ca.pem", for texts
  bool checks_names = false;
};

}  // namespace idproxy::net::tls
