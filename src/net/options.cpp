#include "idproxy/net/options.hpp"

namespace idproxy::net {

std::string Endpoint::text() const {
  if (!unix_path.empty()) return "unix:" + unix_path;
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace idproxy::net
