#include "net/member_ports.hpp"

#include <utility>

#include "idproxy/base/server_address.hpp"

namespace idproxy::net {
namespace {

// How many consecutive ports to try for one member.
constexpr std::size_t kMostCandidates = 100;
// How many members' ports to remember.
constexpr std::size_t kMostRemembered = 100;

}  // namespace

std::uint32_t port_of(std::string_view member) {
  const auto parts = split_host_port(member);
  return parts ? parts->port : 0;
}

Endpoint endpoint_of(const std::string& member) {
  auto parts = split_host_port(member);
  return parts ? Endpoint{std::move(parts->host), parts->port, {}} : Endpoint{member, 0, {}};
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
