#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "idproxy/rewrite/action.hpp"
#include "idproxy/rewrite/context.hpp"
#include "idproxy/rewrite/workspace.hpp"

namespace idproxy::rewrite {

class WriteBatch;
enum class BatchSent;
class PlainInsert;

/// One Request of a client, up to its last reply, all re-sends included. A state machine: events go
/// in, the Action that follows comes out; no sockets, no time of its own.
///
///   request(…)       -> Reply       it is over
///                    -> AskStore    nothing has been sent yet; until answered(), with the same
///                                   Actions as request() but Relay. No later message of this
///                                   connection is forwarded
///                    -> Send        w: 0: over once the message has been taken. Else
///                                   (awaits_reply()): no later message of this connection is
///                                   forwarded until its last reply is queued
///                    -> Relay       as Send, for a hello; else it is over
///   reply(message)   -> Relay,      it is over, unless streams(): then another reply follows, to
///                       Reply       request_id()
///                    -> Close       it is over
///                    -> Send        another reply follows, to request_id()
///                    -> Wait        until resume() -> Send; a reply meanwhile is a lie
///                    -> AskStore    until answered() -> Send, Wait, Reply, AskStore
///                    -> Learn       until learned() -> Reply, as reply(). No later reply is read
///
/// Whoever loses the server connection meanwhile closes the client's: what has been stored is not
/// known, and nothing is sent again.
class Exchange {
 public:
  /// `server`: behind the connection.
  explicit Exchange(ServerId server = 0);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Event: the request, which is what `message` was understood as. `owner`: the buffer that holds
  /// the message and nothing else, or null; may be moved from.
  Action request(Request request, Bytes message, Buffer* owner, const Context& context,
                 Workspace& workspace);
  /// Event: a reply to request_id(), whole. Only while awaits_reply().
  Action reply(Bytes message, const Context& context, Workspace& workspace);
  /// Event: the delay is over.
  Action resume(const Context& context, Workspace& workspace);
  /// Event: Context::members takes what was said into account, or nobody waits for that any more.
  Action learned(const Context& context, Workspace& workspace);
  /// Event: the store's answer, or that nobody waits for it any more.
  Action answered(ids::Result<ids::Grant> grant, const Context& context, Workspace& workspace);
  /// Gives memory back, and the buffer that `owner` had given. Nothing may be called afterwards.
  Buffer release(Workspace& workspace);

  /// The client's message, as far as the exchange had to keep it: always while it asks the store.
  [[nodiscard]] Bytes original() const;
  [[nodiscard]] bool awaits_reply() const { return awaits_reply_; }
  /// The client waits for an answer.
  [[nodiscard]] bool acknowledged() const { return acknowledged_; }
  /// Of the message that is out.
  [[nodiscard]] std::int32_t request_id() const;
  [[nodiscard]] bool is_hello() const { return kind_ == Kind::hello; }
  [[nodiscard]] bool is_status() const { return kind_ == Kind::status; }
  /// After Relay or Reply: the server goes on with replies that nobody asks for one by one.
  [[nodiscard]] bool streams() const { return streams_; }

  /// For the log and counters; of the request event, or the answer that it had to wait for.
  [[nodiscard]] std::size_t assigned() const { return assigned_; }
  [[nodiscard]] std::size_t refused() const { return refused_documents_; }
  /// Valid as long as the exchange.
  [[nodiscard]] const Assignment* driver_made() const { return driver_made_; }
  /// For the log: a duplicate that was not cured. After the last event.
  [[nodiscard]] std::optional<GivenUp> given_up() const;

 private:
  enum class Kind { insert, hello, status };

  Action hello(const HelloRequest& hello, Bytes message, Buffer* owner, X509 x509,
               Workspace& workspace);
  Action hello_reply(Bytes message, const Context& context, Workspace& workspace);
  Action map_hello(Bytes message, const Context& context, Workspace& workspace);
  Action status(const StatusRequest& status, Buffer* owner, Workspace& workspace);
  Action insert(Buffer* owner, const Context& context, Workspace& workspace);
  Action insert_plain(const PlainInsert& plain, Buffer* owner, const Context& context,
                      Workspace& workspace);
  Action insert_any(Buffer* owner, const Context& context, Workspace& workspace);
  [[nodiscard]] Action ask() const;
  std::optional<Action> draw_values(Workspace& workspace);
  [[nodiscard]] bool too_many_bytes() const;
  void take_back_all();
  Action send_assigned(const Context& context, Workspace& workspace);
  Action send();
  Action send_too_large(const Context& context, Workspace& workspace);
  Action send_in_parts(const Context& context, Workspace& workspace);
  Action fail_insert(CommandError error, Workspace& workspace);
  Action fail(Bytes message, CommandError error, Workspace& workspace);
  void give_each_document();
  void keep_original(Bytes message, Buffer* owner);
  void look_into_original();
  void count_assigned() const;
  [[nodiscard]] bool wants_every_reply() const;
  void open_batch(BatchSent sent);

  ServerId server_;
  Kind kind_ = Kind::insert;
  std::int32_t request_id_ = 0;
  bool awaits_reply_ = false;
  bool may_stream_ = false;
  bool streams_ = false;
  bool acknowledged_ = true;
  wire::PatchedMessage message_;
  Buffer original_;                     // empty if it can be restored from message_
  InsertRequest insert_;                // in the bytes that it came in, or in original_
  std::chrono::nanoseconds started_{};  // when the insert came, monotonic
  std::chrono::nanoseconds now_{};      // when the event at hand came, monotonic
  bool sent_ = false;
  GivenValues given_;
  std::size_t drawing_ = 0;  // the assignment whose values are drawn next, or asked for
  std::size_t size_ = 0;     // of the message without its new values
  std::size_t documents_ = 0;
  std::size_t assigned_ = 0;
  std::size_t refused_documents_ = 0;
  std::vector<RefusedDocument> refused_;
  const Assignment* driver_made_ = nullptr;
  HelloReply said_;
  std::unique_ptr<WriteBatch> batch_;  // once a reply, or its size, makes more of it
};

}  // namespace idproxy::rewrite
