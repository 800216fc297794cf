#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/context.hpp"
#include "idproxy/rewrite/conversation.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/write_exchange.hpp"

namespace idproxy::rewrite {

/// Handles one Request of a client, up to its last reply, including all re-sends. A state machine:
/// the caller passes in events and carries out the Action that each of them returns. Without
/// sockets or timers.
///
///   request(…)       -> Reply       the exchange is over
///                    -> AskStore    nothing has been sent yet. The caller forwards no later
///                                   message of this connection, and calls answered(), which
///                                   returns one of the Actions of request() except Relay
///                    -> AskServer   nothing has been sent yet, either. The caller calls reply(),
///                                   which returns one of the Actions of request() except Relay
///                    -> Send        if awaits_reply(), the caller forwards no later message of
///                                   this connection until the last reply is queued; else (w: 0)
///                                   the exchange is over once the message has been taken
///                    -> Relay       if awaits_reply(), as after Send; else the exchange is over
///   reply(message)   -> Relay,      the exchange is over, unless streams(): then the next reply
///                       Reply       answers request_id()
///                    -> Close       the exchange is over
///                    -> Send        the next reply answers request_id()
///                    -> Wait        the caller calls resume(), which returns Send, AskStore, Reply
///                                   or Close. A reply that arrives meanwhile is invalid
///                    -> AskStore    the caller calls answered(), which returns Send, Wait, Reply,
///                                   AskStore or Close
///                    -> Learn       the caller reads no further reply and calls learned(), which
///                                   returns Reply, as reply() does
///
/// If the server connection breaks meanwhile, the caller must close the client's: nobody knows what
/// the server has stored, and nothing is sent again. Not thread-safe.
class Exchange {
 public:
  /// `server`: the one that the connection leads to. `memory`: of the connection, must outlive the
  /// exchange; null: nothing is remembered, and the server is taken for one of 6.0 or later.
  explicit Exchange(ServerId server = 0, ConnectionMemory* memory = nullptr);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Event: the request. `request` is what classify() found in `message`. `owner`: the buffer that
  /// holds exactly `message`, or null; the exchange may move from it.
  Action request(Request&& request, Bytes message, Buffer* owner, const Context& context,
                 Workspace& workspace);
  /// Event: the whole reply to request_id(). Only while awaits_reply().
  Action reply(Bytes message, const Context& context, Workspace& workspace) {
    return what_->reply(message, context, workspace);
  }
  /// Event: the server's socket has taken all of the message of action::Send, so that nobody needs
  /// it any more: what goes again is made from the client's message.
  void taken(Workspace& workspace) { what_->taken(workspace); }
  /// Event: the delay of action::Wait is over.
  Action resume(const Context& context, Workspace& workspace) {
    return what_->resume(context, workspace);
  }
  /// Event: Context::members takes action::Learn::said into account, or the caller has stopped
  /// waiting for that.
  Action learned(const Context& context, Workspace& workspace) {
    return what_->learned(context, workspace);
  }
  /// Event: the store's answer, or the error with which the caller has stopped waiting for it.
  Action answered(ids::Result<ids::Grant> grant, const Context& context, Workspace& workspace) {
    return what_->answered(std::move(grant), context, workspace);
  }
  /// Returns memory to `workspace`, and the buffer taken from request()'s `owner` to the caller.
  /// Must be the last call; the only one that may come without a request().
  Buffer release(Workspace& workspace) {
    return what_ == nullptr ? Buffer() : what_->release(workspace);
  }

  /// The client's message if the exchange had to keep it, which it always does before it asks the
  /// store; else empty.
  [[nodiscard]] Bytes original() const { return what_->original(); }
  [[nodiscard]] bool awaits_reply() const { return what_->awaits_reply(); }
  /// True from AskServer until its reply.
  [[nodiscard]] bool asks_server() const { return what_->asks_server(); }
  /// True if the client waits for an answer.
  [[nodiscard]] bool acknowledged() const { return what_->acknowledged(); }
  /// The request id of the message that was sent last.
  [[nodiscard]] std::int32_t request_id() const { return what_->request_id(); }
  /// After Relay or Reply: true if the server sends further replies without further requests.
  [[nodiscard]] bool streams() const { return what_->streams(); }

  [[nodiscard]] bool is_hello() const { return kind_ == Kind::hello; }
  [[nodiscard]] bool is_status() const { return kind_ == Kind::status; }
  [[nodiscard]] bool is_next() const { return kind_ == Kind::next; }
  [[nodiscard]] bool is_assign() const { return kind_ == Kind::assign; }

  [[nodiscard]] const ExchangeFacts& facts() const {
    return what_ == nullptr ? kNothing : what_->facts();
  }

 private:
  static const ExchangeFacts kNothing;

  enum class Kind { hello, status, next, assign, other };
  const ServerId server_;
  ConnectionMemory* const memory_;
  Kind kind_ = Kind::other;
  std::optional<WriteExchange> write_;   // without an allocation, since there are many
  std::unique_ptr<Conversation> other_;  // any other
  Conversation* what_ = nullptr;         // the one of both that there is
};

}  // namespace idproxy::rewrite
