#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/rewrite/members.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/op_msg.hpp"
#include "idproxy/wire/patched_message.hpp"

/// {idproxy: "status", $db: "admin"}, the one command that the proxy answers itself:
///
///   {version, listener, server: text,
///    listeners: [{address, server, me?, setName?, state, origin: text, connections: long}],
///    rules: [{ns, field, strategy: text, ready: bool,
///             notReady?: [{ns, code?: int, errmsg: text}], truncated?: true,
///             assigned, resent, cured, givenUp, foreign, transient, surfaced,
///             unacknowledged: long}],
///    counters: {connections, insertsAssigned, documentsRefused, commandsFailed: long},
///    store?: {roundTrips, blocks, blocksDropped, numbersAllocated, numbersReturned, heals: long},
///    ok: 1, $clusterTime?, operationTime?}
///
/// `notReady` has the collections where the rule gives no values, with the code that inserts get
/// there; without one where the rule does not apply at all. All numbers are since the start, but
/// for a listener's connections, which are open now.
namespace idproxy::rewrite {

/// One listener, for {idproxy: "status"}.
struct ListenerStatus {
  std::string address;            ///< as clients are told
  std::string server;             ///< as it is reached
  std::string me;                 ///< as its set calls it; empty: not heard of, or no member
  std::string set_name;           ///< empty as `me`
  std::string_view state;         ///< "PRIMARY" …, "unknown"
  std::string_view origin;        ///< "uri" or "member"
  std::uint64_t connections = 0;  ///< open now
};

/// All that {idproxy: "status"} answers, at one moment.
struct Status {
  std::string_view version;
  std::string listener;  ///< that was asked
  std::string server;    ///< that it stands for
  std::vector<ListenerStatus> listeners;
  std::shared_ptr<const RuleSet> rules;  ///< with their outcomes, and their store
  std::uint64_t connections = 0;         ///< since the start, as the others
  std::uint64_t inserts_assigned = 0;
  std::uint64_t documents_refused = 0;
  std::uint64_t commands_failed = 0;
};

/// Why the request, whose first element is `idproxy`, cannot be answered; or nothing.
[[nodiscard]] std::optional<CommandError> fault_of_status_request(const wire::OpMsgView& request);

/// Writes what the server is asked on the client's connection, under its request's id: a command
/// that needs the right to look at the server (hostInfo, which the role clusterMonitor has). With a
/// checksum if the request has one; borrows nothing of it.
void ask_for_right(const wire::OpMsgView& request, wire::PatchedMessage& out);

/// Appends the whole answer to `request`: the status if the server's `reply` is ok, else its error.
/// False, and nothing is appended, if the reply cannot be understood.
[[nodiscard]] bool append_status_reply(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                                       const Status& status, Buffer& out);

/// Where {idproxy: "status"} gets its answer from. Thread-safe.
class StatusSource {
 public:
  virtual ~StatusSource() = default;
  /// `asked`: the server behind the connection.
  [[nodiscard]] virtual Status status(ServerId asked) const = 0;
};

}  // namespace idproxy::rewrite
