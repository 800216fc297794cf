#pragma once

#include <boost/asio/ip/address.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace idproxy::admin {

/// The hosts that requests to the HTTP endpoint may be addressed to.
///
/// This protects from DNS rebinding: a page of evil.example, open in an operator's browser, makes
/// its own name resolve to 127.0.0.1, and then may read what answers there, as it is of the same
/// origin. Its requests still say `Host: evil.example`. Such a page cannot have an IP address or
/// `localhost` as its host, nor a name that the operator has configured.
class AdmittedHosts {
 public:
  /// `bound`: the address that the server listens at. It is also the local address of every
  /// connection, unless it is unspecified (0.0.0.0 or ::); then any IP address is admitted.
  /// `names`: host names and addresses without brackets and port, in any case.
  AdmittedHosts(const boost::asio::ip::address& bound, const std::vector<std::string>& names);

  /// `authority`: HOST or HOST:PORT, IPv6 in brackets, as the field Host and the target of a
  /// request have it (RFC 9110, section 7.2). Any port will do: it may be that of a tunnel.
  [[nodiscard]] bool admit(std::string_view authority) const;

 private:
  bool any_address_;
  std::set<std::string, std::less<>> hosts_;  // normalized
};

}  // namespace idproxy::admin
