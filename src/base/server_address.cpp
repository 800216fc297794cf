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

bool is_host(std::string_view host) {
  if (host.empty() || host.size() > kLongestHost) return false;
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!has_brackets) return is_name_of_host(host);
  return consists_of(host.substr(1, host.size() - 2), ":.%-_");
}

}  // namespace

bool is_server_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !is_host(text.substr(0, colon))) return false;
  const auto port = read_integer(text.substr(colon + 1));
  return port.reading == Reading::ok && port.value >= 1 && port.value <= kLastPort;
}

}  // namespace idproxy
