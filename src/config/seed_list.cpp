#include "idproxy/config/seed_list.hpp"

#include <set>
#include <string_view>

#include "config/connection_string.hpp"
#include "idproxy/base/server_address.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

/// The options of the new string.
class Options {
 public:
  void copy(std::string_view name, std::string_view value) {
    const std::string key = ascii_lower(name);
    if (key == "srvmaxhosts" || key == "srvservicename") return;
    names_.insert(key == "ssl" ? "tls" : key);
    append(name, value);
  }
  void add_missing(std::string_view name, std::string_view value) {
    if (!names_.contains(ascii_lower(name))) append(name, percent_encoded(value));
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void append(std::string_view name, std::string_view value) {
    if (!text_.empty()) text_ += '&';
    text_.append(name).append("=").append(value);
  }

  std::set<std::string> names_;
  std::string text_;
};

/// A record may have any octets, and those of a connection string would be read as its syntax.
bool is_host_name_with_port(std::string_view text) {
  const auto parts = split_host_port(text);
  return parts && !parts->bracketed && parts->port > 0 && consists_of(parts->host, ".-_");
}

}  // namespace

boost::system::result<std::string, std::string> with_seed_list(const std::string& srv_uri,
                                                               const SeedList& seeds) {
  using boost::system::in_place_error;
  using boost::system::in_place_value;
  for (const std::string& host : seeds.hosts) {
    if (is_host_name_with_port(host)) continue;
    return {in_place_error, "a record names a server that is no host name with a port: " + host};
  }
  const UriParts parts = split_uri(srv_uri);
  Options options;
  for_each_option(parts.options, [&](std::string_view name, std::string_view value) {
    options.copy(name, value);
  });
  for (const auto& [name, value] : seeds.options) options.add_missing(name, value);
  // "If mongodb+srv is used, a driver MUST implicitly also enable TLS" (the drivers'
  // specification).
  options.add_missing("tls", "true");
  std::string uri(kScheme);
  if (!parts.user_info.empty()) uri.append(parts.user_info).append("@");
  for (const std::string& host : seeds.hosts) {
    if (&host != &seeds.hosts.front()) uri += ',';
    uri += host;
  }
  uri += parts.path.empty() ? "/" : parts.path;
  return {in_place_value, uri.append("?").append(options.text())};
}

}  // namespace idproxy::config
