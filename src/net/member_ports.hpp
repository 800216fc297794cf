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

/// Parses `member`, which must be "host:port" or "[v6]:port".
[[nodiscard]] Endpoint endpoint_of(const std::string& member);
/// The port in "host:port"; 0 if there is none.
[[nodiscard]] std::uint32_t port_of(std::string_view member);

/// Chooses the ports of members' listeners: a pinned member's pin, the same port again for a member
/// that had a listener before, else the next free port. Not thread-safe.
class MemberPorts {
 public:
  /// As in Options.
  MemberPorts(Pins pins, std::uint16_t next_port) : pins_(std::move(pins)), next_(next_port) {}

  [[nodiscard]] const Pins& pins() const { return pins_; }
  void set_pins(Pins pins) { pins_ = std::move(pins); }

  /// The ports to try for `member`, in this order; 0: any free port. `others`, the ports of the
  /// set's members, are excluded: a member on this host that is down must find its own port free.
  [[nodiscard]] std::vector<std::uint16_t> candidates(const std::string& member,
                                                      const std::set<std::uint32_t>& others) const;
  /// Event: the member's listener is open, at this one of the candidates.
  void took(const std::string& member, std::uint16_t port);

 private:
  Pins pins_;
  std::map<std::string, std::uint16_t> before_;  // by member, including those that have left
  std::uint32_t next_;                           // 0: any
};

}  // namespace idproxy::net
