#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idproxy/log/log.hpp"
#include "idproxy/net/client_statistics.hpp"
#include "idproxy/rewrite/exchange.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "net/connector.hpp"
#include "net/direction.hpp"
#include "net/ending.hpp"
#include "net/io_thread.hpp"
#include "net/lately.hpp"
#include "net/reply_gate.hpp"
#include "net/request_gate.hpp"
#include "net/server_load.hpp"
#include "net/stream.hpp"

namespace idproxy::net {

/// A client connection and its server connection: they share login, order and lifetime. Connects
/// the parts that serve them, two directions and a gate for each, and runs exchanges, one at a
/// time, each from its request to its last reply. Lives on one io thread.
///
/// Its thread owns it until it is closed, and the event loop until what was under way then has
/// ended. So it outlives its waits and whatever is closing it. Other threads find it by its id
/// (IoThread::pairs).
class ConnectionPair final {
 public:
  /// All pairs of `thread`, which must be the calling thread. A copy, since closing a pair removes
  /// it from IoThread::pairs. Valid in this turn of the loop.
  [[nodiscard]] static std::vector<ConnectionPair*> all_of(const IoThread& thread);

  /// Call on `thread`.
  static void start(IoThread& thread, FileDescriptor downstream,
                    std::shared_ptr<Upstream> upstream);
  ConnectionPair(IoThread& thread, FileDescriptor downstream, std::shared_ptr<Upstream> upstream);
  ~ConnectionPair() { exchange_.reset(); }  // which refers to memory_
  ConnectionPair(const ConnectionPair&) = delete;
  ConnectionPair& operator=(const ConnectionPair&) = delete;

  /// The server that the client is connected to.
  [[nodiscard]] const Upstream& upstream() const { return *server_; }
  /// How many requests the client has sent.
  [[nodiscard]] std::uint64_t requests() const { return counts_.requests; }
  /// Bytes that it holds of messages.
  [[nodiscard]] std::uint64_t memory() const;
  [[nodiscard]] const rewrite::ClientDescription* names() const { return memory_.client.get(); }
  /// Asks the kernel for the addresses.
  [[nodiscard]] ClientStatistics describe() const;
  /// What it adds to the figures of its application. Makes no system call.
  [[nodiscard]] ApplicationStatistics share(std::chrono::nanoseconds now) const;
  /// Closes both connections at once. Idempotent.
  void close();
  /// Answers an awaitable or streaming hello with ShutdownInProgress, and reads no more requests
  /// from this connection. False if there is no such hello.
  bool tell_monitor();
  /// Closes both connections as soon as nothing is under way, and answers requests that were not
  /// forwarded yet with ShutdownInProgress. Only while the thread is draining.
  void drain();

 private:
  struct Deadline : Deadlines::Place {
    explicit Deadline(ConnectionPair& of) : pair(of) {}
    ConnectionPair& pair;
  };
  template <auto kExpired>
  static void expired(Deadlines::Place& place) {
    (static_cast<Deadline&>(place).pair.*kExpired)();
  }
  class Messenger;
  class StoreAnswer;
  /// An exchange and what it holds.
  struct UnderWay : rewrite::Exchange {
    using Exchange::Exchange;
    RequestGate::Message about{};
    Budget::Share share;                // for the request
    Budget::Share reply_share;          // for a large reply that is being collected
    std::optional<ids::Ticket> ticket;  // of the unanswered question to the store
    ids::StoreSource* asked = nullptr;  // by that question
    std::optional<rewrite::WaitingRequests::Place> waiting;  // until that is answered
    std::chrono::nanoseconds added{};  // of the time in which values were assigned
  };
  /// Gives the memory of an exchange back to its thread.
  struct Recycled {
    BlockPool* memory;
    void operator()(UnderWay* exchange) const;
  };
  /// What the exchange waits for, apart from the server.
  enum class Waits : std::uint8_t { for_nothing, for_store, for_pause };

  /// From the client to the server.
  class Requests final : public Direction<Requests> {
   public:
    explicit Requests(ConnectionPair& pair)
        : Direction(pair.downstream_, pair.upstream_, pair.thread_.buffers, true), pair_(pair) {}

   private:
    friend Direction;

    bool take(Bytes front) { return pair_.take_request(front); }
    [[nodiscard]] bool holds_up() const;
    [[nodiscard]] std::size_t read_size() const;
    void woken(auto go_on) { pair_.guarded(go_on); }
    void heard();
    void received(std::size_t bytes);
    void writing(std::size_t bytes);
    void source_ended() {}  // end_if_answered() sees to it
    void source_broke();
    void finished() {}
    void written();
    void write_failed();

    ConnectionPair& pair_;
  };
  /// From the server to the client.
  class Replies final : public Direction<Replies> {
   public:
    explicit Replies(ConnectionPair& pair)
        : Direction(pair.upstream_, pair.downstream_, pair.thread_.buffers, false), pair_(pair) {}

   private:
    friend Direction;

    bool take(Bytes front) { return pair_.take_reply(front); }
    [[nodiscard]] bool holds_up() const { return pair_.learning_; }
    [[nodiscard]] static std::size_t read_size() { return BufferPool::kReadSize; }
    void woken(auto go_on) {
      fetch_ahead(pair_.exchange_.get(), sizeof(UnderWay));
      pair_.guarded(go_on);
    }
    void heard() {}
    void received(std::size_t bytes);
    void writing(std::size_t bytes);
    void source_ended();
    void source_broke();
    void finished() { pair_.close(); }
    void written();
    void write_failed() { pair_.close(); }

    ConnectionPair& pair_;
  };

  // Opening.
  void begin();
  void greeted();
  void tls_failed(std::string_view client, std::string_view reason);
  void connect();
  void connected(Stream stream);
  void not_connected(const Connector::Failure& failure);
  void server_lost();

  /// True for a client without the login that the server wants.
  [[nodiscard]] bool needs_login() const {
    return !memory_.logged_in &&
           server_->logins.load(std::memory_order_relaxed) == rewrite::Logins::enforced;
  }
  // The client's end.
  [[nodiscard]] bool holds_request() const;
  [[nodiscard]] bool may_send() const;
  void end_if_answered();

  // Messages. take_request() and take_reply(): see Direction::take().
  bool take_request(Bytes front);
  bool take_reply(Bytes front);
  inline void note_reply();
  bool reply_relayed(ReplyGate::Ended ended);
  inline void relay_begins(const RequestGate::Step& step);
  void note_transaction(const RequestGate::Message& message, Bytes front);
  void turn_away(Bytes front);
  bool refuse(const RequestGate::Step& step);
  void queue_for_room();
  void forwarded(const RequestGate::Message& message, Bytes request);
  void expect_reply(const RequestGate::Message& message, std::int32_t request_id);
  std::optional<std::chrono::nanoseconds> answered();
  inline std::optional<Bytes> inflated(Bytes reply);
  void reply(Bytes message);
  void reply_locally(wire::Compressor compressor, Bytes plain);
  void deliver_local_reply();
  void replies_taken();
  void end_after_replies();

  // The exchange, of which each event leads to an action. What writes to a socket, rejects a reply
  // or goes on with requests may close the pair.
  inline void begin_exchange(RequestGate::Step&& step, Bytes received);
  inline void make_spare(std::size_t size);
  void ask_others();
  void act_on_request(const rewrite::Action& action, Bytes message, Bytes received);
  void act_on_reply(const rewrite::Action& action, Bytes message);
  void answer_here(Bytes message);
  void send(const rewrite::action::Send& message);
  void sent();
  void ask(const rewrite::action::AskStore& need);
  void ask_server(const rewrite::action::AskServer& question);
  void go_on_with_request(const rewrite::Action& action);
  void answered(std::uint64_t question, ids::Result<ids::Grant> grant);
  void start_timer(std::chrono::nanoseconds delay);
  void elapsed();
  void stop_waiting();
  void learn(const rewrite::HelloReply& said);
  void learned();
  inline void count_request();
  void note_added_time();
  void end_exchange();
  /// True while an exchange is under way or a local reply has not been sent.
  [[nodiscard]] bool is_busy() const { return exchange_ || local_reply_; }
  /// True if the client does not have the replies to all requests that were relayed.
  [[nodiscard]] bool owes_replies() const {
    return reply_gate_.ledger().outstanding() > 0 || replies_.unsent();
  }

  // Time limits.
  void watch_message();
  void timed_out(Counted as, log::Level level, std::string_view event, std::string_view message);
  void made_no_handshake();
  void sent_nothing();
  void sent_half_a_message();
  void left_unanswered();
  void watch_memory();
  void has_not_moved();

  // Draining.
  void go_on_draining();
  [[nodiscard]] drain::Progress progress() const;
  void answer_hello_late();

  /// Runs a handler's work. An exception, mostly std::bad_alloc, ends this pair and no other.
  template <class Work>
  void guarded(Work work) {
    try {
      work();
      if (thread_.draining) go_on_draining();
      if (requests_.ended()) end_if_answered();
      watch_message();
      watch_memory();
    } catch (const std::exception& error) {
      failed(error);
    }
  }
  void log_closed() const noexcept;
  void failed(const std::exception& error);
  void protocol_error(const ProtocolFault& fault);

  // What each message needs comes first: with a thousand connections, none is in the processor's
  // caches when a message comes.
  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Stream downstream_;
  Stream upstream_;
  Requests requests_;
  Replies replies_;
  RequestGate request_gate_;
  ReplyGate reply_gate_;
  // The newest request, while later ones must wait for it or part of its message is unsent.
  std::unique_ptr<UnderWay, Recycled> exchange_{nullptr, Recycled{nullptr}};
  std::unique_ptr<Buffer> local_reply_;             // sent once nothing is outstanding
  std::shared_ptr<Connector> connector_;            // until the server connection is open
  std::unique_ptr<const std::string> unreachable_;  // what to tell the client if it was not
  Waits waits_ = Waits::for_nothing;
  bool learning_ = false;  // the topology takes a reply to hello into account
  bool is_owed_ = false;   // the next request waits until the client has all earlier replies
  bool closed_ = false;
  bool handshaking_ = false;     // with the client, for TLS
  bool silent_ = true;           // the client has sent nothing yet
  bool requests_ended_ = false;  // reads no more requests: draining, or the server closed
  bool server_told_ = false;     // that no more requests follow
  ServerLoad& load_;             // the thread's part of the server's
  ServerLoad::Connection waiting_;
  Deadline deadline_;  // for the client's first bytes, the rest of a message, or its answers
  Deadline stall_;     // for a client in the middle of a message that has room in the budget
  struct {
    std::uint64_t requests = 0;
    std::uint64_t documents = 0;  // of its inserts into collections with rules
    std::uint64_t values = 0;     // of its writes, that were sent
    std::uint64_t bytes_received = 0;
    std::uint64_t bytes_sent = 0;
    Lately lately{};
    wire::Compressor compressor = wire::Compressor::none;  // of the last compressed request
  } counts_;
  std::chrono::nanoseconds connected_{};  // when upstream_ was opened; monotonic
  rewrite::ConnectionMemory memory_;
  std::chrono::nanoseconds opened_;  // monotonic
  Budget::Share unsent_share_;       // for a large reply that the client has not taken yet
  std::uint64_t id_;
  OpenTransactions::Sessions transactions_;  // of those that the client has begun
  Timer timer_;                              // of the exchange
  std::uint64_t questions_ = 0;              // number of questions to the store so far
};

}  // namespace idproxy::net
