#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/connector.hpp"
#include "net/direction.hpp"
#include "net/drain.hpp"
#include "net/exchange_runner.hpp"
#include "net/io_thread.hpp"
#include "net/reply_gate.hpp"
#include "net/request_gate.hpp"
#include "net/stream.hpp"

namespace idproxy::net {

/// A client connection and its server connection: they share login, order and lifetime. Holds and
/// connects the parts that serve them: two directions, a gate for each, and the runner of
/// exchanges. Lives on one io thread.
///
/// Waits own the pair, because up to four may be under way when it is closed; the last one to be
/// ended frees it. The reference count is not atomic: other threads do not hold
/// references but find the pair by its id (IoThread::pairs).
class ConnectionPair final : Direction::Owner, ExchangeRunner::Connection {
 public:
  using Self = boost::intrusive_ptr<ConnectionPair>;
  /// All pairs of `thread`, which must be the calling thread. A copy, since closing a pair removes
  /// it from IoThread::pairs.
  [[nodiscard]] static std::vector<Self> all_of(const IoThread& thread);

  /// Call on `thread`.
  static void start(IoThread& thread, FileDescriptor downstream,
                    std::shared_ptr<Upstream> upstream);
  ConnectionPair(IoThread& thread, FileDescriptor downstream, std::shared_ptr<Upstream> upstream);
  ~ConnectionPair();
  ConnectionPair(const ConnectionPair&) = delete;
  ConnectionPair& operator=(const ConnectionPair&) = delete;

  /// The server that the client is connected to.
  [[nodiscard]] const Upstream& upstream() const { return *server_; }
  /// Closes both connections at once. Idempotent.
  void close();
  /// Answers an awaitable or streaming hello with ShutdownInProgress, and reads no more requests
  /// from this connection. False if there is no such hello.
  bool tell_monitor();
  /// Closes both connections as soon as nothing is under way, and answers requests that were not
  /// forwarded yet with ShutdownInProgress. Only while the thread is draining.
  void drain();

 private:
  friend void intrusive_ptr_add_ref(ConnectionPair* pair) { ++pair->owners_; }
  friend void intrusive_ptr_release(ConnectionPair* pair);

  struct Deadline : Deadlines::Place {
    explicit Deadline(ConnectionPair& of) : pair(of) {}
    ConnectionPair& pair;
  };
  template <auto kExpired>
  static void expired(Deadlines::Place& place) {
    (static_cast<Deadline&>(place).pair.*kExpired)();
  }
  class StoreAnswer;
  struct Cursor;

  // Opening.
  void begin();
  void greeted();
  void tls_failed(std::string_view client, std::string_view reason);
  void connect();
  void connected(Stream stream);
  void not_connected(const Connector::Failure& failure);
  void server_lost();

  // Direction::Owner.
  std::size_t process(Direction& direction, Bytes input) override;
  [[nodiscard]] bool holds_up(const Direction& direction) const override;
  [[nodiscard]] std::size_t read_size(const Direction& direction) const override;
  void woken(Direction& direction, bool writable) override;
  void waits(const Direction& direction) override;
  void heard(const Direction& direction) override;
  void received(const Direction& direction, std::size_t bytes) override;
  void source_ended(const Direction& direction) override;
  void source_broke(const Direction& direction) override;
  void finished(const Direction& /*direction*/) override { close(); }
  void written(Direction& direction) override;
  void write_failed(const Direction& direction) override;
  void acquire() override { intrusive_ptr_add_ref(this); }
  void release() override { intrusive_ptr_release(this); }

  // ExchangeRunner::Connection.
  void forwarded(const wire::MsgHeader& header, Bytes request) override;
  void awaits(std::int32_t request_id) override { reply_gate_.ledger().forwarded(request_id); }
  bool send(const wire::PatchedMessage& message, Bytes original) override;
  void send(Bytes message) override;
  void reply(Bytes message) override;
  [[nodiscard]] bool has_answered_all() const override;
  void reject_reply() override;
  void start_timer(std::chrono::nanoseconds delay, std::uint64_t question) override;
  void stop_timer() override { timer_.cancel(); }
  [[nodiscard]] ids::Ticket ask(const rewrite::action::AskStore& need,
                                std::uint64_t question) override;
  void learn(const rewrite::HelloReply& said) override;
  void resume_requests() override { requests_.resume(); }

  [[nodiscard]] bool is_request(const Direction& direction) const {
    return &direction == &requests_;
  }
  /// take_request() and take_reply() return false if they cannot take more now.
  bool take_request(Cursor& cursor);
  bool take_reply(Cursor& cursor);
  bool reply_passed(ReplyGate::Ended ended, Cursor& cursor);
  bool write_run(Direction& direction, Cursor& cursor);
  void turn_away(Cursor& cursor);
  void begin_exchange(rewrite::Request&& request, Bytes message);
  void queue_for_room();
  void learned();
  [[nodiscard]] ReplyGate::Exchange awaited() const;
  [[nodiscard]] bool leaves_something() const;
  void relay_reply(Bytes bytes);
  void end_after_replies();

  // Time limits.
  void watch_message();
  void sent_nothing();
  void made_no_handshake();
  void sent_half_a_message();

  // Draining.
  void go_on_draining();
  bool refuse_late(Bytes front, std::size_t length);
  [[nodiscard]] drain::Progress progress() const;
  void answer_hello_late();

  template <class Work>
  void guarded(Work work);
  void protocol_error(const ProtocolFault& fault);

  std::uint32_t owners_ = 0;
  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Stream downstream_;
  Stream upstream_;
  std::uint64_t id_;
  RequestGate request_gate_;
  ReplyGate reply_gate_;
  ExchangeRunner runner_;
  Direction requests_;
  Direction replies_;
  std::shared_ptr<Connector> connector_;            // until the server connection is open
  std::chrono::nanoseconds connected_{};            // when it was opened; monotonic
  std::unique_ptr<const std::string> unreachable_;  // what to tell the client if it was not
  Timer timer_;                                     // of the exchange
  Deadline deadline_;           // for the client's first bytes, or the rest of a message
  Budget::Share unsent_share_;  // for a large reply that the client has not taken yet
  bool closed_ = false;
  bool handshaking_ = false;     // with the client, for TLS
  bool silent_ = true;           // the client has sent nothing yet
  bool requests_ended_ = false;  // reads no more requests: draining, or the server closed
};

}  // namespace idproxy::net
