#include "config/uri_parts.hpp"

namespace idproxy::config {

UriParts split_uri(std::string_view uri) {
  uri.remove_prefix(uri.starts_with(kSrvScheme) ? kSrvScheme.size() : kScheme.size());
  UriParts parts;
  parts.hosts = uri.substr(0, uri.find('/'));
  parts.path = uri.substr(parts.hosts.size());
  if (const std::size_t query = parts.path.find('?'); query != std::string_view::npos) {
    parts.options = parts.path.substr(query + 1);
    parts.path = parts.path.substr(0, query);
  }
  if (const std::size_t at = parts.hosts.rfind('@'); at != std::string_view::npos) {
    parts.user_info = parts.hosts.substr(0, at);
    parts.hosts.remove_prefix(at + 1);
  }
  return parts;
}

}  // namespace idproxy::config
