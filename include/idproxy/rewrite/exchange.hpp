#pragma once

#include <memory>
#include <vector>

#include "idproxy/base/clock.hpp"
#include "idproxy/rewrite/insert.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/rewrite/rules.hpp"
#include "idproxy/wire/patched_message.hpp"

namespace idproxy::rewrite {

/// What exchanges of one io thread share: memory that lives from message to message. Not
/// thread-safe.
struct Workspace {
  Workspace(std::shared_ptr<const RuleSet> rules, const Clock& wall_clock)
      : namespaces(std::move(rules)), clock(wall_clock) {}

  Namespaces namespaces;
  const Clock& clock;
  InsertRewriter insert;
  wire::PatchedMessage patched;       ///< of Action::send
  Buffer reply;                       ///< of Action::reply
  std::uint32_t next_request_id = 1;  ///< of our own messages; wraps
};

/// What net does next.
enum class Action {
  relay,  ///< the message goes on as it came
  send,   ///< Workspace::patched goes upstream in its place
  reply,  ///< Workspace::reply goes downstream: in place of the reply; or, in answer to the
          ///< request, once everything that the client sent before has been answered
};

/// One request that classify() wanted whole, up to its reply. A state machine: events go in, the
/// Action that follows comes out; no sockets, no time.
///
///   request(message) -> relay | reply              it is over
///                    -> send                       hello: over. insert: if awaits_reply(), no
///                    later
///                                                  message of this connection is forwarded until
///   reply(message)   -> relay | reply              its reply is queued; then it is over
class Exchange {
 public:
  /// Event: the request, whole.
  Action request(Bytes message, Workspace& workspace);
  /// Event: its reply. Called only if wants_reply(); else the reply is relayed unseen.
  Action reply(Bytes message, Workspace& workspace);

  [[nodiscard]] bool awaits_reply() const { return awaits_reply_; }
  [[nodiscard]] bool wants_reply() const { return awaits_reply_ && !refused_.empty(); }
  [[nodiscard]] std::int32_t request_id() const { return request_id_; }
  [[nodiscard]] bool is_hello() const { return is_hello_; }

  /// For counters and the log; of the request event.
  [[nodiscard]] std::size_t assigned() const { return assigned_; }
  [[nodiscard]] std::size_t refused() const { return refused_.size(); }
  [[nodiscard]] const Assignment* driver_made() const { return driver_made_; }

 private:
  Action insert(const wire::OpMsgView& message, Workspace& workspace);
  static Action fail(const wire::OpMsgView& message, const CommandError& error,
                     Workspace& workspace);

  std::int32_t request_id_ = 0;
  bool awaits_reply_ = false;
  bool is_hello_ = false;
  std::size_t assigned_ = 0;
  const Assignment* driver_made_ = nullptr;
  std::vector<RefusedDocument> refused_;
};

}  // namespace idproxy::rewrite
