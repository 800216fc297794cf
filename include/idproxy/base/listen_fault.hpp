#pragma once

#include <boost/system/error_code.hpp>
#include <string>
#include <utility>

namespace idproxy {

/// Why this process cannot listen at an address.
struct ListenFault {
  std::string text{};  ///< for people; empty: it can
  bool is_forbidden = false;

  ListenFault() = default;
  explicit ListenFault(std::string why) : text(std::move(why)) {}
  /// `what`: "127.0.0.1:80", in front of the reason.
  ListenFault(const std::string& what, const boost::system::error_code& code)
      : text(what + ": " + code.message()),
        is_forbidden(code == boost::system::errc::permission_denied) {}
};

}  // namespace idproxy
