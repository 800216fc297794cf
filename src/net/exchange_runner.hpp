#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "idproxy/rewrite/connection_memory.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "net/budget.hpp"
#include "net/io_thread.hpp"

namespace idproxy::net {

/// Runs the exchanges of one connection, one at a time, each from its request to its last reply. It
/// has no socket and no timer of its own: the connection passes in events, and carries out the
/// actions. Lives on one io thread.
class ExchangeRunner {
 public:
  /// The connection, as far as the runner needs it. send(), reply(), reject_reply() and
  /// resume_requests() may close the connection, which closes the runner, too.
  class Connection {
   public:
    /// A message that the server may answer is being sent to the server. `request`: the client's
    /// whole message.
    virtual void forwarded(const wire::MsgHeader& header, Bytes request) = 0;
    /// The runner awaits another reply, to this request.
    virtual void awaits(std::int32_t request_id) = 0;
    /// Sends to the server. True if the socket took the whole message.
    virtual bool send(const wire::PatchedMessage& message, Bytes original) = 0;
    virtual void send(Bytes message) = 0;
    /// Sends to the client.
    virtual void reply(Bytes message) = 0;
    /// True if all earlier requests of the client have been answered, and the answers have been
    /// sent.
    [[nodiscard]] virtual bool has_answered_all() const = 0;
    /// The server's reply is invalid: ends the connection.
    virtual void reject_reply() = 0;

    /// Calls elapsed(question) after `delay`, unless another call replaces this one or stop_timer()
    /// comes first.
    virtual void start_timer(std::chrono::nanoseconds delay, std::uint64_t question) = 0;
    virtual void stop_timer() = 0;
    /// Asks the id store, and calls answered(question) with its answer, unless the ticket is
    /// dropped first.
    [[nodiscard]] virtual ids::Ticket ask(const rewrite::action::AskStore& need,
                                          std::uint64_t question) = 0;
    /// Lets the topology take `said` into account, then calls learned().
    virtual void learn(const rewrite::HelloReply& said) = 0;

    /// Goes on with the requests that the exchange held up.
    virtual void resume_requests() = 0;

   protected:
    ~Connection() = default;
  };

  /// `server`: the one that the connection leads to; `id`: the connection's id in the log.
  ExchangeRunner(Connection& connection, IoThread& thread, rewrite::ServerId server,
                 std::uint64_t id);
  ~ExchangeRunner();
  ExchangeRunner(const ExchangeRunner&) = delete;
  ExchangeRunner& operator=(const ExchangeRunner&) = delete;

  /// Event: a request for an exchange. `message` and `owner` as for rewrite::Exchange::request().
  /// `share`: the message's share of the budget.
  void begin(rewrite::Request&& request, Bytes message, Buffer* owner, Budget::Share share);
  /// Event: the whole reply that the exchange awaits. The caller has recorded it in the reply
  /// ledger.
  void reply(Bytes message);
  /// Event: the caller is collecting that reply, and needs `bytes` of it. The reply must not wait
  /// for room in the budget, because its request holds some.
  void collects_reply(std::size_t bytes);
  /// Event: the socket has taken the unsent rest of the request.
  void request_written();
  /// Event: the timer that was started for `question` has run out. 0: for a pause.
  void elapsed(std::uint64_t question);
  /// Event: the store's answer. One that arrives too late is ignored, and its values go back to the
  /// store.
  void answered(std::uint64_t question, ids::Result<ids::Grant> grant);
  /// Event: the topology has taken into account what the server said.
  void learned();
  /// Event: all earlier requests may have been answered, so that the local reply can be sent.
  void deliver_local_reply();
  /// Event: the connection has been closed. The runner does nothing from here on.
  void close();

  /// Answers a request without an exchange, once all earlier ones have been answered.
  void reply_locally(Buffer reply);
  /// The request id of an OP_MSG hello that awaits a reply or streams replies; nothing if there is
  /// none, or while learning().
  [[nodiscard]] std::optional<std::int32_t> waiting_hello() const;
  /// Ends the exchange without the server's reply.
  void abandon() { ended(); }
  /// Event: a message is passed on that may change the connection's user.
  void forget_rights() { memory_.rights.forget(); }
  /// Event: a message is passed on that stores documents to which these rules are not applied.
  void note_past(std::span<const rewrite::Forwarded> past) const;

  /// True while an exchange is under way or a local reply has not been sent.
  [[nodiscard]] bool is_busy() const { return exchange_ || local_reply_; }
  [[nodiscard]] bool has_local_reply() const { return local_reply_ != nullptr; }
  /// True if the server must still answer the exchange.
  [[nodiscard]] bool awaits_reply() const;
  /// True while the topology takes a reply to hello into account. The caller must not read further
  /// replies meanwhile.
  [[nodiscard]] bool learning() const { return learning_; }
  /// True if the exchange waits for the store or a pause before it sends an unacknowledged message.
  [[nodiscard]] bool delays_unacknowledged() const;

 private:
  struct UnderWay;
  /// Gives the memory of an exchange back to its thread.
  class Recycled {
   public:
    Recycled() : memory_(nullptr) {}
    explicit Recycled(BlockPool& memory) : memory_(&memory) {}
    void operator()(UnderWay* exchange) const;

   private:
    BlockPool* memory_;
  };
  /// A reply of the proxy's own.
  struct LocalReply {
    Buffer message;
    Budget::Share share;  // if it is large
  };
  enum class Waits : std::uint8_t { for_nothing, for_store, for_pause };

  void make_spare(std::size_t size);
  void start(const rewrite::Action& action, Bytes message);
  void act(const rewrite::Action& action, Bytes reply);
  void answer_here(Bytes reply);
  void ask(const rewrite::action::AskStore& need);
  void send(const rewrite::action::Send& message);
  void note_added_time();
  void taken();
  void stop_waiting();
  void ended();
  void report();
  void log_forwarded() const;
  void log_past(const rewrite::Forwarded& past) const;
  void log_driver_made() const;
  void log_zero() const;
  void ask_others();
  void log_given_up() const;
  void log_lost() const;

  Connection& connection_;
  IoThread& thread_;
  const std::uint64_t id_;
  rewrite::ConnectionMemory memory_;
  // The newest request, while later ones must wait for it or part of its message is unsent.
  std::unique_ptr<UnderWay, Recycled> exchange_;
  std::unique_ptr<LocalReply> local_reply_;  // sent once nothing is outstanding
  std::uint64_t questions_ = 0;              // number of questions to the store so far
  const rewrite::ServerId server_;
  Waits waits_ = Waits::for_nothing;  // what exchange_ waits for
  bool learning_ = false;
  bool closed_ = false;
};

}  // namespace idproxy::net
