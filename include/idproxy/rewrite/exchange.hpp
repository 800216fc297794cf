#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/context.hpp"
#include "idproxy/rewrite/drawing.hpp"
#include "idproxy/rewrite/workspace.hpp"

namespace idproxy::rewrite {

struct ConnectionMemory;
class NextValues;
class WriteBatch;
enum class BatchSent;

/// Handles one Request of a client, up to its last reply, including all re-sends. A state machine:
/// the caller passes in events and carries out the Action that each of them returns. Without
/// sockets or timers.
///
///   request(…)       -> Reply       the exchange is over
///                    -> AskStore    nothing has been sent yet. The caller forwards no later
///                                   message of this connection, and calls answered(), which
///                                   returns one of the Actions of request() except Relay
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
  Action reply(Bytes message, const Context& context, Workspace& workspace);
  /// Event: the server's socket has taken all of the message of action::Send, so that nobody needs
  /// it any more: what goes again is made from the client's message.
  void taken(Workspace& workspace);
  /// Event: the delay of action::Wait is over.
  Action resume(const Context& context, Workspace& workspace);
  /// Event: Context::members takes action::Learn::said into account, or the caller has stopped
  /// waiting for that.
  Action learned(const Context& context, Workspace& workspace);
  /// Event: the store's answer, or the error with which the caller has stopped waiting for it.
  Action answered(ids::Result<ids::Grant> grant, const Context& context, Workspace& workspace);
  /// Returns memory to `workspace`, and the buffer taken from request()'s `owner` to the caller.
  /// Must be the last call.
  Buffer release(Workspace& workspace);

  /// The client's message if the exchange had to keep it, which it always does before it asks the
  /// store; else empty.
  [[nodiscard]] Bytes original() const;
  [[nodiscard]] bool awaits_reply() const { return awaits_reply_; }
  /// True if the client waits for an answer.
  [[nodiscard]] bool acknowledged() const { return acknowledged_; }
  /// The request id of the message that was sent last.
  [[nodiscard]] std::int32_t request_id() const;
  [[nodiscard]] bool is_hello() const { return kind_ == Kind::hello; }
  [[nodiscard]] bool is_status() const { return kind_ == Kind::status; }
  [[nodiscard]] bool is_next() const { return kind_ == Kind::next; }
  /// After Relay or Reply: true if the server sends further replies without further requests.
  [[nodiscard]] bool streams() const { return streams_; }

  /// For the log and counters: the kind of the write command, and the numbers of assigned values
  /// and of refused documents. Set by request(), or by the last answered() before the write is
  /// sent.
  [[nodiscard]] WriteKind command_kind() const { return write_.command.kind; }
  /// When the write arrived, or the last reply with errors to it, by Clock::monotonic().
  [[nodiscard]] std::chrono::nanoseconds since() const { return since_; }
  [[nodiscard]] std::size_t assigned() const { return assigned_; }
  [[nodiscard]] std::size_t refused() const { return refused_documents_; }
  /// The number of values in the answer to {idproxy: "next"}.
  [[nodiscard]] std::size_t handed_out() const;
  /// An `_id` rule for which all documents already had an ObjectId made by their driver; else null.
  /// Valid as long as the exchange.
  [[nodiscard]] const Assignment* driver_made() const { return driver_made_; }
  /// A rule that left a zero in its field: null, 0, "" and the like; else null. Valid as long as
  /// the exchange.
  [[nodiscard]] const Assignment* leaves_zero() const { return leaves_zero_; }
  /// Upserts that were sent without a value of a rule.
  [[nodiscard]] std::span<const Forwarded> forwarded() const { return forwarded_; }
  /// "db.collection" of the write command. Only until the exchange's next event.
  [[nodiscard]] std::string ns() const { return write_.ns(); }
  /// For the log, after the last event: a duplicate that was not cured.
  [[nodiscard]] std::optional<GivenUp> given_up() const;
  /// The first rule of an insert of which the server has left out documents without a word; else
  /// null. Valid as long as the exchange.
  [[nodiscard]] const Assignment* lost_writes() const;

 private:
  enum class Kind { write, hello, status, next, end_of_transaction, catalog };

  Action hello(const HelloRequest& hello, Bytes message, Buffer* owner, X509 x509,
               Workspace& workspace);
  Action hello_reply(Bytes message, const Context& context, Workspace& workspace);
  Action map_hello(Bytes message, const Context& context, Workspace& workspace);
  Action status(const StatusRequest& status, Buffer* owner, Workspace& workspace);
  Action next(const NextRequest& next, Buffer* owner, const Context& context, Workspace& workspace);
  Action write(Buffer* owner, const Context& context, Workspace& workspace);
  Action go_on(const Context& context, Workspace& workspace);
  std::optional<Action> await_guards(Workspace& workspace);
  Action send_unchanged(const Assignment& left_alone);
  Action send_to_guarded(const Context& context, Workspace& workspace);
  Action change_catalog(CatalogRequest&& request);
  void note_past(const CatalogRequest::Past& past);
  void catalog_changed();
  [[nodiscard]] Action ask() const;
  std::optional<Action> draw_values(Workspace& workspace);
  [[nodiscard]] bool too_many_bytes() const;
  void take_back_all();
  Action send_assigned(const Context& context, Workspace& workspace);
  [[nodiscard]] std::optional<CommandError> fault_in_batch() const;
  Action send_as_batch(const Context& context, Workspace& workspace);
  [[nodiscard]] bool reserves_values() const;
  Action begun(const Action& action);
  Action send();
  Action send_too_large(const Context& context, Workspace& workspace);
  Action send_in_parts(const Context& context, Workspace& workspace);
  Action fail_write(CommandError error, Workspace& workspace);
  Action fail(Bytes message, CommandError error, Workspace& workspace);
  void keep_original(Bytes message, Buffer* owner, Workspace& workspace);
  void look_into_original();
  void refill(Workspace& workspace);
  void count_assigned(const GivenValues& given) const;
  [[nodiscard]] bool wants_every_reply() const;
  void open_batch(BatchSent sent);

  ServerId server_;
  ConnectionMemory* memory_;
  Kind kind_ = Kind::write;
  std::int32_t request_id_ = 0;
  bool awaits_reply_ = false;
  bool may_stream_ = false;
  bool streams_ = false;
  bool acknowledged_ = true;
  wire::PatchedMessage message_;  // what is sent, until it is taken
  Buffer original_;
  WriteRequest write_;                  // refers to the received bytes, or to original_
  std::chrono::nanoseconds started_{};  // when the write arrived, monotonic
  std::chrono::nanoseconds since_{};    // that, or when the last reply was read, monotonic
  std::chrono::nanoseconds now_{};      // when the current event arrived, monotonic
  bool sent_ = false;
  bool as_batch_ = false;                    // needs numbers in turn, or reservations
  bool has_waited_ = false;                  // the workspace has scanned other messages since
  bool is_plain_ = false;                    // no rule applies after all: its replies are relayed
  const Assignment* guard_of_ = nullptr;     // the rule whose guard the write waits for
  std::optional<ids::CollectionUuid> uuid_;  // of the collection that the guards are of
  GivenValues given_;
  Drawing drawing_;       // of the values for the first send
  std::size_t size_ = 0;  // bytes of the message without its new values
  std::size_t statements_ = 0;
  std::size_t assigned_ = 0;
  std::size_t refused_documents_ = 0;
  std::vector<RefusedDocument> refused_;
  const Assignment* driver_made_ = nullptr;
  const Assignment* leaves_zero_ = nullptr;
  std::vector<Forwarded> forwarded_;
  std::optional<HelloReply> said_;              // for Kind::hello
  std::optional<EndOfTransaction> ending_;      // for Kind::end_of_transaction
  std::optional<CatalogRequest> catalog_;       // for Kind::catalog
  std::vector<std::shared_ptr<void>> changes_;  // under way, for Kind::catalog
  std::unique_ptr<NextValues> next_;            // for Kind::next
  std::unique_ptr<WriteBatch> batch_;  // once a reply or the size calls for further commands
};

}  // namespace idproxy::rewrite
