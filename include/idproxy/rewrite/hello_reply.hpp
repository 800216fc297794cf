#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/base/bytes.hpp"

/// Functions shared by reading and patching a reply to hello.
namespace idproxy::rewrite {

/// The server's description of itself in a reply to hello (OP_MSG or OP_REPLY). Member names are in
/// lower case.
struct HelloReply {
  enum class State { unknown, standalone, mongos, primary, secondary, arbiter, other };

  State state = State::unknown;
  std::string set_name;              ///< empty: not a member of a replica set
  std::string me;                    ///< the server's "host:port" in its set
  std::vector<std::string> members;  ///< hosts, then passives, then arbiters
  std::size_t hosts = 0;             ///< how many of each
  std::size_t arbiters = 0;
  std::int64_t set_version = 0;   ///< version of the set's configuration
  std::string election_id;        ///< a primary's: 12 bytes, greater for later elections
  std::string process_id;         ///< topologyVersion.processId: 12 bytes; empty before 4.4
  std::int32_t wire_version = 0;  ///< maxWireVersion; 0: it says none that is one
  std::int64_t counter = 0;       ///< topologyVersion.counter: a process increases it with changes

  bool operator==(const HelloReply&) const = default;
  /// Write concern majority waits for at least so many members, as far as a hello tells, which
  /// names no hidden ones; 0: not known.
  [[nodiscard]] std::int64_t majority() const;
};
/// The name as MongoDB spells it: "PRIMARY". For State::unknown: "unknown".
[[nodiscard]] std::string_view state_name(HelloReply::State state);

/// Returns nothing if the message is malformed, a field that names members has the wrong type, or a
/// list has more than 100 names. If the hello failed, the state is unknown.
[[nodiscard]] std::optional<HelloReply> read_hello_reply(Bytes message);

/// The document of a reply to hello. Borrows from the message.
struct HelloDocument {
  Bytes document;
  bool has_checksum = false;  ///< the message ends with a checksum, 4 bytes
};

/// Finds the document in an OP_MSG without document sequences or in an OP_REPLY with one document.
/// Returns nothing for any other message, or if it is malformed.
[[nodiscard]] std::optional<HelloDocument> find_hello_document(Bytes message);

/// How a field names members of the set: not at all, in an array, or in one string.
enum class NamesMembers { none, list, one };
[[nodiscard]] NamesMembers names_members(std::string_view key);

}  // namespace idproxy::rewrite
