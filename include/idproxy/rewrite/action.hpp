#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "idproxy/ids/strategy.hpp"
#include "idproxy/rewrite/hello_reply.hpp"
#include "idproxy/rewrite/rule.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// A duplicate of ours that stays one. Valid as long as its exchange.
struct GivenUp {
  std::string ns;  ///< "db.collection"
  const Rule* rule;
  std::uint32_t attempts;  ///< that its documents had, at most
};

/// What they point to stays where it is, unchanged, until the exchange's next event.
namespace action {

/// The message at hand, request or reply, goes on as it came.
struct Relay {};
/// `message` goes upstream.
struct Send {
  const wire::PatchedMessage* message;
  Bytes original;  ///< that `message` patches; empty if it keeps nothing of it
};
/// Then resume().
struct Wait {
  std::chrono::nanoseconds delay;
};
/// Then answered().
struct AskStore {
  ids::StoreBacked* strategy;  ///< lives as long as the exchange
  std::size_t count;
  std::chrono::nanoseconds patience;  ///< then Errc::unavailable is the answer
};
/// Topology hears `said`; then learned().
struct Learn {
  const HelloReply* said;
};
/// Goes downstream, in answer to the request, once everything that the client sent before has been
/// answered. Lies in the workspace: valid until another exchange's event too.
struct Reply {
  Bytes message;  ///< empty if nobody waits for an answer (w: 0)
};
/// Both connections end: the server's reply is impossible.
struct Close {};

}  // namespace action

/// What net does next.
using Action = std::variant<action::Relay, action::Send, action::Wait, action::AskStore,
                            action::Learn, action::Reply, action::Close>;

}  // namespace idproxy::rewrite
