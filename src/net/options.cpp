#include "idproxy/net/options.hpp"

#include <arpa/inet.h>

#include <array>

#include "idproxy/base/words.hpp"

namespace idproxy::net {

std::string Endpoint::text() const {
  if (!unix_path.empty()) return "unix:" + unix_path;
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string Endpoint::key() const {
  if (!unix_path.empty()) return text();
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> usual{};
  Endpoint same{ascii_lower(host), port, {}};
  if (::inet_pton(AF_INET6, host.c_str(), &address) == 1) {
    same.host = ::inet_ntop(AF_INET6, &address, usual.data(), usual.size());
  }
  return same.text();
}

}  // namespace idproxy::net
