#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "budget.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "io_thread.hpp"

namespace idproxy::net {

/// Carries out what the exchange of one connection asks for, from its request to its last reply:
/// at most one is under way at a time. Has no socket and no timer of its own: events go in, and
/// what they lead to is done by the connection. Lives on one io thread.
class ExchangeRunner {
 public:
  /// What an exchange does to its connection. To send, reply, reject or resume may close it; then
  /// the runner has been closed, too.
  class Connection {
   public:
    /// A message that the server may answer goes to it; `request`, whole, is what the client sent.
    virtual void forwarded(const wire::MsgHeader& header, Bytes request) = 0;
    /// Another reply to this request is awaited.
    virtual void awaits(std::int32_t request_id) = 0;
    /// Sends to the server. True if it has been taken whole.
    virtual bool send(const wire::PatchedMessage& message, Bytes original) = 0;
    virtual void send(Bytes message) = 0;
    /// Sends to the client.
    virtual void reply(Bytes message) = 0;
    /// Everything that the client sent before has been answered, and what it was answered with has
    /// been sent.
    [[nodiscard]] virtual bool has_answered_all() const = 0;
    /// The server's reply cannot be what it should be.
    virtual void reject_reply() = 0;

    /// Calls elapsed(question) after `delay`, unless another call replaces this one or stop_timer()
    /// comes first.
    virtual void start_timer(std::chrono::nanoseconds delay, std::uint64_t question) = 0;
    virtual void stop_timer() = 0;
    /// Calls answered(question), or never.
    [[nodiscard]] virtual ids::Ticket ask(const rewrite::action::AskStore& need,
                                          std::uint64_t question) = 0;
    /// Calls learned().
    virtual void learn(const rewrite::HelloReply& said) = 0;

    /// What the exchange held up may go on.
    virtual void resume_requests() = 0;

   protected:
    ~Connection() = default;
  };

  /// `server`: behind the connection; `id`: the connection's, for the log.
  ExchangeRunner(Connection& connection, IoThread& thread, rewrite::ServerId server,
                 std::uint64_t id);
  ~ExchangeRunner();
  ExchangeRunner(const ExchangeRunner&) = delete;
  ExchangeRunner& operator=(const ExchangeRunner&) = delete;

  /// Event: a request that is to be dealt with by an exchange. `message` and `owner` as for
  /// rewrite::Exchange::request().
  void begin(rewrite::Request request, Bytes message, Buffer* owner, Budget::Share share);
  /// Event: the reply that the exchange awaits, whole. The ledger knows that it has come.
  void reply(Bytes message);
  /// Event: that reply is being collected; `bytes` of it are needed. It cannot wait for room: its
  /// request holds some.
  void collects_reply(std::size_t bytes);
  /// Event: the server has taken what it had not taken of the request.
  void request_written();
  /// Event: the timer that was started for `question`, 0 for a pause, has run out.
  void elapsed(std::uint64_t question);
  /// Event: the store's answer. One that comes too late goes back to the store.
  void answered(std::uint64_t question, ids::Result<ids::Grant> grant);
  /// Event: what the server said has been taken into account.
  void learned();
  /// Event: all earlier requests may have been answered.
  void deliver_local_reply();
  /// Event: the connection is closed. Nothing is done any more.
  void close();

  /// A reply that needs no exchange.
  void reply_locally(Buffer reply);
  /// A hello that waits for the server's news, or streams them: its request id. Nothing if there is
  /// none.
  [[nodiscard]] std::optional<std::int32_t> waiting_hello() const;
  /// The exchange is over without the server's reply.
  void abandon() { ended(); }

  /// Until the local reply is sent, too.
  [[nodiscard]] bool is_busy() const { return exchange_ || local_reply_; }
  [[nodiscard]] bool has_local_reply() const { return local_reply_.has_value(); }
  /// The server is to answer.
  [[nodiscard]] bool awaits_reply() const;
  /// What a reply to hello says is being taken into account; no later reply may be read.
  [[nodiscard]] bool learning() const { return learning_; }
  /// It waits for the store or a pause, to send a message for which nobody awaits an answer.
  [[nodiscard]] bool delays_unacknowledged() const;

 private:
  struct UnderWay;

  void start(const rewrite::Action& action, Bytes message);
  void act(const rewrite::Action& action, Bytes reply);
  void answer_here(Bytes reply);
  void ask(const rewrite::action::AskStore& need);
  void send(const rewrite::action::Send& message);
  void answer(Bytes reply);
  void stop_waiting();
  void ended();
  void report();
  void log_given_up() const;

  Connection& connection_;
  IoThread& thread_;
  const rewrite::ServerId server_;
  const std::uint64_t id_;
  // The newest request, if later ones must wait for it; or what is still being sent from.
  std::unique_ptr<UnderWay> exchange_;
  std::optional<Buffer> local_reply_;  // to be sent when nothing is outstanding
  ids::Ticket ticket_;                 // of the question that is out
  std::uint64_t questions_ = 0;        // to the store so far
  enum class Waits { for_nothing, for_store, for_pause };
  Waits waits_ = Waits::for_nothing;
  bool learning_ = false;
  bool closed_ = false;
};

}  // namespace idproxy::net
