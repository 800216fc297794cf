#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

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
  /// After Send: true if the server may hold its reply back until a transaction of another client
  /// has ended.
  [[nodiscard]] bool may_wait() const { return write_ && write_->may_wait(); }
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

  /// For the log and counters: the kind of the write command, and the numbers of an insert's
  /// documents, of assigned values and of refused documents. Set by request(), or by the last
  /// answered() before the write is sent.
  [[nodiscard]] WriteKind command_kind() const {
    return write_ ? write_->command_kind() : WriteKind::insert;
  }
  [[nodiscard]] std::size_t documents() const { return write_ ? write_->documents() : 0; }
  [[nodiscard]] std::size_t assigned() const { return write_ ? write_->assigned() : 0; }
  /// The values that have been sent so far.
  [[nodiscard]] std::size_t values_sent() const { return write_ ? write_->values_sent() : 0; }
  [[nodiscard]] std::size_t refused() const { return write_ ? write_->refused() : 0; }
  /// When the write arrived, or the last reply with errors to it, by Clock::monotonic(). Only of a
  /// write.
  [[nodiscard]] std::chrono::nanoseconds since() const { return write_->since(); }
  /// An `_id` rule for which all documents already had an ObjectId made by their driver; else null.
  /// Valid as long as the exchange.
  [[nodiscard]] const Assignment* driver_made() const {
    return write_ ? write_->driver_made() : nullptr;
  }
  /// A rule that left a zero in its field: null, 0, "" and the like; else null. Valid as long as
  /// the exchange.
  [[nodiscard]] const Assignment* leaves_zero() const {
    return write_ ? write_->leaves_zero() : nullptr;
  }
  /// After the last event: a duplicate that was not cured.
  [[nodiscard]] std::optional<GivenUp> given_up() const {
    return write_ ? write_->given_up() : std::nullopt;
  }
  /// The first rule of an insert of which the server has left out documents without a word; else
  /// null. Valid as long as the exchange.
  [[nodiscard]] const Assignment* lost_writes() const {
    return write_ ? write_->lost_writes() : nullptr;
  }
  /// The collection into which the client may not write, as the server says; else null. Valid as
  /// long as the exchange.
  [[nodiscard]] const Assignment* not_permitted() const {
    return what_ == nullptr ? nullptr : what_->not_permitted();
  }
  /// Writes that were sent without a value of a rule.
  [[nodiscard]] std::span<const Forwarded> forwarded() const { return what_->forwarded(); }
  /// Updates that take values of a rule away.
  [[nodiscard]] std::span<const TakenAway> taken_away() const { return what_->taken_away(); }
  /// True if the operator should know how the request was understood: driver_made(), leaves_zero(),
  /// forwarded() or taken_away() tell.
  [[nodiscard]] bool was_odd() const {
    return driver_made() != nullptr || leaves_zero() != nullptr || !forwarded().empty() ||
           !taken_away().empty();
  }
  /// The same of how it ended: given_up(), lost_writes() or not_permitted() tell.
  [[nodiscard]] bool ended_badly() const {
    return given_up() || lost_writes() != nullptr || not_permitted() != nullptr;
  }
  /// The number of values in the answer to {idproxy: "next"}.
  [[nodiscard]] std::size_t handed_out() const { return what_->handed_out(); }

 private:
  enum class Kind { hello, status, next, other };
  const ServerId server_;
  ConnectionMemory* const memory_;
  Kind kind_ = Kind::other;
  std::optional<WriteExchange> write_;   // without an allocation, since there are many
  std::unique_ptr<Conversation> other_;  // any other
  Conversation* what_ = nullptr;         // the one of both that there is
};

}  // namespace idproxy::rewrite
