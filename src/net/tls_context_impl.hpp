#pragma once

#include "idproxy/net/tls.hpp"
#include "net/openssl.hpp"

namespace idproxy::net::tls {

struct Context::Impl {
  OwnedSslContext ssl;
  std::vector<Certificate> certificates;
  std::size_t own_chain = 0;  ///< how many of `certificates`, from the front, are the own chain
  std::string own_subject;    ///< the own certificate's; empty: none
  std::vector<std::string> own_cluster_attributes;
  std::string content;  ///< the file names, digests of all certificates and lists, and the mode
  std::string trusted;  ///< the source of trusted authorities, for texts: "the CA file /etc/ca.pem"
  bool checks_names = false;
};

}  // namespace idproxy::net::tls
