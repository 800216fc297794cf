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

/// {idproxy: "status", $db: "admin"}, a command of the proxy's own, as next_request.hpp has
/// another:
///
///   {version, listener, server: text,
///    listeners: [{address, server, me?, setName?, state, origin: text, connections: long}],
///    rules: [{ns, field, strategy: text, ready: bool,
///             notReady?: [{ns, code?: int, errmsg: text}], truncated?: true,
///             numbers?: [{ns, next?: long, held: long, left?: long,
///                         liveRanges?: long, ranges?: long} or
///                        {ns, documents?: long, fill: double, maxFill: double}],
///             assigned, resent, cured, givenUp, foreign, transient, surfaced, unacknowledged,
///             handedOut: long, upsertsForwarded: {<reason>: long, …}}],
///    counters: {connections, insertsAssigned, documentsRefused, commandsFailed: long},
///    store?: {roundTrips, blocks, blocksDropped, numbersAllocated, numbersReturned, heals: long},
///    ok: 1, $clusterTime?, operationTime?}
///
/// `notReady` lists collections for which the rule gives no values, with the code of the error that
/// inserts get there, or without a code if the rule does not apply to the collection at all.
/// `numbers` has what counters and spaces of random numbers have left, at most 20 of each rule. All
/// other numbers are counts since the start, except a listener's connections, which are those open
/// now.
namespace idproxy::rewrite {

/// One listener, for {idproxy: "status"}.
struct ListenerStatus {
  std::string address;            ///< the address to tell clients
  std::string server;             ///< the address to connect to
  std::string me;                 ///< its name in its set; empty: unknown or not a member
  std::string set_name;           ///< empty: unknown or not a member
  std::string_view state;         ///< as state_name() spells it
  std::string_view origin;        ///< "uri" or "member"
  std::uint64_t connections = 0;  ///< open now
};

/// The content of the answer to {idproxy: "status"}, at one moment.
struct Status {
  std::string_view version;
  std::string listener;  ///< the listener that got the request
  std::string server;    ///< the server behind that listener
  std::vector<ListenerStatus> listeners;
  std::shared_ptr<const RuleSet> rules;  ///< including their outcomes and their store
  std::uint64_t connections = 0;         ///< since the start, like the following
  std::uint64_t inserts_assigned = 0;
  std::uint64_t documents_refused = 0;
  std::uint64_t commands_failed = 0;
};

/// Returns the error if a command of the proxy's own is not for the database admin; else nothing.
[[nodiscard]] std::optional<CommandError> fault_of_database(const wire::OpMsgView& request);

/// Returns the error if the request, whose first element is `idproxy`, is not well-formed; else
/// nothing.
[[nodiscard]] std::optional<CommandError> fault_of_status_request(const wire::OpMsgView& request);

/// Writes a command that the proxy sends to the server on the client's connection to check the
/// client's rights: hostInfo, which the role clusterMonitor permits. It has the request's id, and a
/// checksum if the request has one. `out` borrows nothing from the request.
void ask_for_right(const wire::OpMsgView& request, wire::PatchedMessage& out);

/// Appends the whole answer to `request`: `status` if the server's `reply` is ok, else the server's
/// error. Returns false and appends nothing if the reply cannot be understood.
[[nodiscard]] bool append_status_reply(const wire::OpMsgView& request, const wire::OpMsgView& reply,
                                       const Status& status, Buffer& out);

}  // namespace idproxy::rewrite
