#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"

namespace idproxy::rewrite {

/// The server's description of itself in a reply to hello (OP_MSG or OP_REPLY). Member names are in
/// lower case.
struct HelloReply {
  enum class State { unknown, standalone, mongos, primary, secondary, arbiter, other };

  State state = State::unknown;
  std::string set_name;              ///< empty: not a member of a replica set
  std::string me;                    ///< the server's "host:port" in its set
  std::vector<std::string> members;  ///< hosts, then passives, then arbiters
  std::int64_t set_version = 0;      ///< version of the set's configuration
  std::string election_id;           ///< a primary's: 12 bytes, greater for later elections
  std::string process_id;            ///< topologyVersion.processId: 12 bytes; empty before 4.4
  std::int32_t wire_version = 0;     ///< maxWireVersion; 0: it says none that is one
  std::int64_t counter = 0;  ///< topologyVersion.counter: a process increases it with changes

  bool operator==(const HelloReply&) const = default;
};
/// The name as MongoDB spells it: "PRIMARY". For State::unknown: "unknown".
[[nodiscard]] std::string_view state_name(HelloReply::State state);

/// Returns nothing if the message is malformed, a field that names members has the wrong type, or a
/// list has more than 100 names. If the hello failed, the state is unknown.
[[nodiscard]] std::optional<HelloReply> read_hello_reply(Bytes message);

}  // namespace idproxy::rewrite
