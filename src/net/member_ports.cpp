#include "net/member_ports.hpp"

#include <charconv>

namespace idproxy::net {
namespace {

// How many consecutive ports to try for one member.
constexpr std::size_t kMostCandidates = 100;
// How many members' ports to remember.
constexpr std::size_t kMostRemembered = 100;

}  // namespace

std::uint32_t port_of(std::string_view member) {
  const std::string_view digits = member.substr(member.rfind(':') + 1);
  std::uint32_t port = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), port);
  return port;
}

Endpoint endpoint_of(const std::string& member) {
  Endpoint endpoint;
  endpoint.host = member.substr(0, member.rfind(':'));
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  endpoint.port = static_cast<std::uint16_t>(port_of(member));
  return endpoint;
}

std::vector<std::uint16_t> MemberPorts::candidates(const std::string& member,
                                                   const std::set<std::uint32_t>& others) const {
  if (const auto pin = pins_.find(endpoint_of(member).key()); pin != pins_.end()) {
    return {pin->second};
  }
  if (next_ == 0) return {0};
  std::vector<std::uint16_t> ports;
  if (const auto before = before_.find(member); before != before_.end()) {
    ports.push_back(before->second);
  }
  std::set<std::uint32_t> taken = others;
  for (const auto& [server, port] : pins_) taken.insert(port);
  for (std::uint32_t port = next_; port <= kMaxPort && ports.size() < kMostCandidates; ++port) {
    if (!taken.contains(port)) ports.push_back(static_cast<std::uint16_t>(port));
  }
  return ports;
}

void MemberPorts::took(const std::string& member, std::uint16_t port) {
  if (port == 0) return;
  if (before_.size() < kMostRemembered) before_[member] = port;
  if (next_ != 0 && port >= next_ && !pins_.contains(endpoint_of(member).key())) {
    next_ = port + 1U;
  }
}

}  // namespace idproxy::net
