#include "admin/admitted_hosts.hpp"

#include <algorithm>
#include <optional>

#include "idproxy/base/words.hpp"

namespace idproxy::admin {
namespace {

using boost::asio::ip::address;

/// Nothing for a name.
std::optional<address> address_of(const std::string& host) {
  boost::system::error_code error;
  const address parsed = boost::asio::ip::make_address(host, error);
  return error ? std::nullopt : std::optional(parsed);
}

/// The same for all spellings of an address. Browsers leave out the zone of fe80::1%eth0.
std::string normalized(const address& ip) {
  return ip.is_v6() ? address(boost::asio::ip::address_v6(ip.to_v6().to_bytes())).to_string()
                    : ip.to_string();
}

std::string normalized(const std::string& host) {
  const auto ip = address_of(host);
  return ip ? normalized(*ip) : ascii_lower(host);
}

/// The host of "HOST" or "HOST:PORT", without the brackets of IPv6. Nothing if it is neither.
std::optional<std::string> host_of(std::string_view authority) {
  const bool bracketed = authority.starts_with('[');
  const std::size_t end =
      bracketed ? authority.find(']') : std::min(authority.find(':'), authority.size());
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view port = authority.substr(bracketed ? end + 1 : end);
  const bool has_port = port.starts_with(':');
  if (!port.empty() && !has_port) return std::nullopt;
  if (port.find_first_not_of("0123456789", 1) != std::string_view::npos) return std::nullopt;
  return std::string(bracketed ? authority.substr(1, end - 1) : authority.substr(0, end));
}

}  // namespace

AdmittedHosts::AdmittedHosts(const address& bound, const std::vector<std::string>& names)
    : any_address_(bound.is_unspecified()), hosts_{"localhost", normalized(bound)} {
  for (const std::string& name : names) hosts_.insert(normalized(name));
}

bool AdmittedHosts::admit(std::string_view authority) const {
  const auto host = host_of(authority);
  if (!host) return false;
  return hosts_.contains(normalized(*host)) || (any_address_ && address_of(*host));
}

}  // namespace idproxy::admin
