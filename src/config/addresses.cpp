#include "config/addresses.hpp"

#include <arpa/inet.h>

#include <array>

#include "idproxy/base/words.hpp"

namespace idproxy::config {
namespace {

bool is_loopback(const std::string& host) {
  static const std::string v4 = address_bytes("127.0.0.1");
  static const std::string v6 = address_bytes("::1");
  const std::string bytes = address_bytes(host);
  return host == "localhost" || bytes == v4 || bytes == v6;
}

/// True for the same name or address, or if both mean this host.
bool same_host(const std::string& listen, const std::string& other) {
  const bool own = is_loopback(other) || is_any(other);
  if (own && (is_loopback(listen) || is_any(listen))) return true;
  return same_name_or_address(listen, other);
}

}  // namespace

std::string address_bytes(const std::string& host) {
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return {bytes.data(), sizeof(in_addr)};
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return {bytes.data(), bytes.size()};
  return {};
}

bool same_name_or_address(const std::string& a, const std::string& b) {
  const std::string bytes = address_bytes(a);
  return bytes.empty() ? ascii_lower(a) == ascii_lower(b) : bytes == address_bytes(b);
}

bool is_any(const std::string& host) {
  const std::string bytes = address_bytes(host);
  return !bytes.empty() && bytes.find_first_not_of('\0') == std::string::npos;
}

bool is_local_only(const std::string& address) {
  const std::string bytes = address_bytes(address);
  return bytes.size() == sizeof(in_addr) ? bytes.front() == 127 : is_loopback(address);
}

bool same_place(const net::Endpoint& listen, const net::Endpoint& other) {
  if (!listen.unix_path.empty() || !other.unix_path.empty()) {
    return listen.unix_path == other.unix_path;
  }
  return listen.port != 0 && listen.port == other.port && same_host(listen.host, other.host);
}

bool compete(const net::Endpoint& a, const net::Endpoint& b) {
  if (a.port == 0 || a.port != b.port) return false;
  return is_any(a.host) || is_any(b.host) || same_name_or_address(a.host, b.host);
}

}  // namespace idproxy::config
