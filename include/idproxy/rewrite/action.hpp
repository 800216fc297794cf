#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "idproxy/ids/source.hpp"
#include "idproxy/rewrite/hello_reply.hpp"
#include "idproxy/rewrite/rule.hpp"
#include "idproxy/rewrite/rule_outcomes.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// A generated value that is still a duplicate after the retries that its rule allows. Valid as
/// long as its exchange.
struct GivenUp {
  std::string ns;  ///< "db.collection"
  const Rule* rule;
  std::uint32_t attempts;  ///< limit of the re-sends of one document
  RetryBound ended_by;
};

/// Pointers and views in an Action stay valid, and their targets unchanged, until the exchange's
/// next event.
namespace action {

/// Forward the message at hand, request or reply, unchanged.
struct Relay {};
/// Send `message` to the server.
struct Send {
  const wire::PatchedMessage* message;
  Bytes original;  ///< the message that `message` patches; empty if it keeps none of its bytes
};
/// Send `message`, a question of the proxy's own about the client, to the server before anything
/// else of the request, then call reply(). Only while the request has not been sent.
struct AskServer {
  const wire::PatchedMessage* message;
};
/// Call resume() after `delay`.
struct Wait {
  std::chrono::nanoseconds delay;
};
/// Ask the id store, through `strategy`, for `count` values, then call answered().
struct AskStore {
  ids::StoreSource* strategy;  ///< valid as long as the exchange
  RuleOutcomes* rule;          ///< whose value that is; valid likewise
  std::size_t count;
  std::chrono::nanoseconds patience;  ///< after this time, answer with Errc::unavailable
};
/// Let Topology take `said` into account, then call learned().
struct Learn {
  const HelloReply* said;
};
/// Send `message` to the client as the answer to its request, once every earlier request has been
/// answered. The message may lie in the Workspace: the next event of any exchange of the io thread
/// invalidates it.
struct Reply {
  Bytes message;  ///< empty: the client does not wait for an answer (w: 0)
};
/// Close both connections, because the server's reply is invalid.
struct Close {};

}  // namespace action

/// The next step of the caller (net).
using Action = std::variant<action::Relay, action::Send, action::AskServer, action::Wait,
                            action::AskStore, action::Learn, action::Reply, action::Close>;

}  // namespace idproxy::rewrite
