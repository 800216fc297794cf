#include "idproxy/base/server_address.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "idproxy/base/printable.hpp"
#include "idproxy/base/scalars.hpp"
#include "idproxy/base/words.hpp"

namespace idproxy {
namespace {

constexpr std::size_t kLongestHost = 255;
constexpr std::int64_t kLastPort = 65535;

/// Letters and digits, also of other alphabets, which mongod stores as it is given them.
bool is_name_of_host(std::string_view host) {
  std::string ascii;
  std::ranges::copy_if(host, std::back_inserter(ascii),
                       [](char c) { return (static_cast<unsigned char>(c) & 0x80) == 0; });
  return is_printable(host) && (ascii.empty() || consists_of(ascii, ".-_"));
}

}  // namespace

std::optional<HostPort> split_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = read_integer(text.substr(colon + 1));
  if (port.reading != Reading::ok || port.value < 0 || port.value > kLastPort) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() > 1 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  return HostPort{std::string(host), static_cast<std::uint16_t>(port.value), bracketed};
}

bool is_server_address(std::string_view text) {
  const auto parts = split_host_port(text);
  if (!parts || parts->port == 0 || parts->host.empty()) return false;
  if (parts->host.size() + (parts->bracketed ? 2 : 0) > kLongestHost) return false;
  return parts->bracketed ? consists_of(parts->host, ":.%-_") : is_name_of_host(parts->host);
}

}  // namespace idproxy
