#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"

namespace idproxy::rewrite {

/// What a reply to hello says of the server (OP_MSG or OP_REPLY). Names are in lower case.
struct HelloReply {
  enum class State { unknown, standalone, mongos, primary, secondary, arbiter, other };

  State state = State::unknown;
  std::string set_name;              ///< empty: not a member of a replica set
  std::string me;                    ///< host:port under which the set knows it
  std::vector<std::string> members;  ///< hosts, passives, arbiters, in this order
  std::int64_t set_version = 0;      ///< of the set's configuration
  std::string election_id;           ///< of a primary: 12 bytes, later elections compare greater
  std::string process_id;            ///< topologyVersion: 12 bytes; empty before 4.4
  std::int64_t counter = 0;          ///< topologyVersion: grows with what one process has to say

  bool operator==(const HelloReply&) const = default;
};
/// As MongoDB spells it: "PRIMARY".
[[nodiscard]] std::string_view state_name(HelloReply::State state);

/// Nothing if it is malformed, or if what names the members is not of its type, or names more than
/// a set could have. The reply to a hello that failed has the state unknown.
[[nodiscard]] std::optional<HelloReply> read_hello_reply(Bytes message);

}  // namespace idproxy::rewrite
