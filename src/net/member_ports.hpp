#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idproxy/net/options.hpp"

namespace idproxy::net {

/// "host:port" or "[v6]:port", which `member` is known to be.
[[nodiscard]] Endpoint endpoint_of(const std::string& member);
/// The port in "host:port"; 0 if there is none.
[[nodiscard]] std::uint32_t port_of(std::string_view member);

/// Chooses the ports of members that get a listener: a pinned member has its pin, one that has had
/// a listener before gets its port again, any other one the next port that is free. Not
/// thread-safe.
class MemberPorts {
 public:
  /// As Options has them.
  MemberPorts(Pins pins, std::uint16_t next_port) : pins_(std::move(pins)), next_(next_port) {}

  [[nodiscard]] const Pins& pins() const { return pins_; }
  void set_pins(Pins pins) { pins_ = std::move(pins); }

  /// The ports to try for `member`, in this order; 0: any. `others`: ports that members of the set
  /// have. One of this host that is down would find its own port in use, by us.
  [[nodiscard]] std::vector<std::uint16_t> candidates(const std::string& member,
                                                      const std::set<std::uint32_t>& others) const;
  /// Event: the member's listener is open, at this one of the candidates.
  void took(const std::string& member, std::uint16_t port);

 private:
  Pins pins_;
  std::map<std::string, std::uint16_t> before_;  // by member, also of those that have left
  std::uint32_t next_;                           // 0: any
};

}  // namespace idproxy::net
