#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "asio.hpp"
#include "connector.hpp"
#include "idproxy/wire/frame_reader.hpp"
#include "idproxy/wire/reply_ledger.hpp"
#include "io_thread.hpp"
#include "out_queue.hpp"
#include "stream.hpp"

namespace idproxy::net {

/// One client connection and the one server connection behind it: they share identity, order and
/// fate. Lives on one io thread.
///
/// Both directions run independently, each: wait until its source can be read (holding 512 bytes),
/// read into the thread's buffer, pass on what is only relayed, keep what is not yet a decision,
/// stop reading while the other side does not take more.
///
/// Handlers own it, because those of up to four waits may be under way when it is closed; the last
/// one to be cancelled frees it. They count without atomics: what other threads bring finds the
/// pair by its id (IoThread::pairs).
class ConnectionPair {
 public:
  using Self = boost::intrusive_ptr<ConnectionPair>;
  /// That live on `thread`, on which it is called: closing one takes it out of IoThread::pairs.
  [[nodiscard]] static std::vector<Self> all_of(const IoThread& thread);

  /// `downstream` belongs to `thread.io`. Call on that thread.
  static void start(IoThread& thread, Socket downstream, std::shared_ptr<Upstream> upstream);
  ConnectionPair(IoThread& thread, Socket downstream, std::shared_ptr<Upstream> upstream);
  ~ConnectionPair();
  ConnectionPair(const ConnectionPair&) = delete;
  ConnectionPair& operator=(const ConnectionPair&) = delete;

  /// The server behind it.
  [[nodiscard]] const Upstream& upstream() const { return *server_; }
  /// Closes both connections at once. Idempotent.
  void close();
  /// Answers a hello that waits for news, or streams them, with ShutdownInProgress; nothing else is
  /// read from that connection any more. False if there is none.
  bool tell_monitor();
  /// Closes both as soon as nothing is under way; what was not forwarded yet is answered with
  /// ShutdownInProgress. Its thread is draining.
  void drain();

 private:
  friend void intrusive_ptr_add_ref(ConnectionPair* pair) { ++pair->owners_; }
  friend void intrusive_ptr_release(ConnectionPair* pair);

  /// One way of the two.
  struct Direction {
    wire::FrameReader frames;
    Buffer held;             // read, not decided or not allowed on yet
    std::size_t wanted = 0;  // size of `held` below which nothing can be decided
    OutQueue out;            // decided, not taken by the other side yet
    bool waiting = false;    // for its source to be readable
    bool draining = false;   // waiting for its sink to be writable
    bool source_ended = false;
  };
  struct Deadline : Deadlines::Place {
    explicit Deadline(ConnectionPair& of) : pair(of) {}
    ConnectionPair& pair;
  };
  template <auto kExpired>
  static void expired(Deadlines::Place& place) {
    (static_cast<Deadline&>(place).pair.*kExpired)();
  }
  struct UnderWay;
  struct Waiting;
  class StoreAnswer;

  void begin();
  void greeted();
  void tls_failed(std::string_view client, std::string_view reason);
  void connect();
  void connected(Stream stream);

  [[nodiscard]] bool is_request(const Direction& direction) const {
    return &direction == &requests_;
  }
  [[nodiscard]] Stream& source_of(const Direction& direction) {
    return is_request(direction) ? downstream_ : upstream_;
  }
  [[nodiscard]] Stream& sink_of(const Direction& direction) {
    return is_request(direction) ? upstream_ : downstream_;
  }

  void wait_source(Direction& direction);
  void on_readable(Direction& direction);
  void read(Direction& direction);
  [[nodiscard]] Stream::Received read_some(Direction& direction);
  void read_to_hold(Direction& direction);
  void count_received(const Direction& direction, std::size_t bytes);
  void heard();
  void source_ended(Direction& direction);
  [[nodiscard]] bool leaves_something() const;
  void source_broke(const Direction& direction);
  void server_lost();
  void wait_sink(Direction& direction);
  template <class Work>
  void guarded(Work work);
  void on_writable(Direction& direction);
  void resume(Direction& direction);
  void watch_message();
  void sent_nothing();
  void made_no_handshake();
  void sent_half_a_message();

  [[nodiscard]] bool blocked(const Direction& direction) const;
  void process(Direction& direction, Bytes input);
  void settle(Direction& direction, Bytes input, std::size_t consumed);
  void queued(Direction& direction, OutQueue::Status status);
  void relay(Direction& direction, Bytes bytes);

  [[nodiscard]] std::size_t process_requests(Bytes input);
  [[nodiscard]] bool admit(std::size_t length);
  void admitted(Budget::Share share);
  void exchange(Bytes message);
  void begin_exchange(const rewrite::Action& action, Bytes message);
  void answer_here(Bytes reply);
  void ask_store(const rewrite::action::AskStore& need);
  void store_answered(std::uint64_t question, ids::Result<ids::Grant> grant);
  void send_exchange(const rewrite::action::Send& send);
  void forwarded(const wire::MsgHeader& header, Bytes front);
  void report(const rewrite::Exchange& exchange);
  void deliver_local_reply();

  [[nodiscard]] std::size_t process_replies(Bytes input);
  void begin_reply(const wire::MsgHeader& header, Bytes front);
  [[nodiscard]] bool answers_exchange() const;
  [[nodiscard]] std::size_t reply_bytes_needed(const wire::MsgHeader& header) const;
  [[nodiscard]] std::string_view fault_of(const wire::MsgHeader& header);
  void act(const rewrite::Action& action, Bytes reply);
  void wait_to_resume(std::chrono::nanoseconds delay);
  void learn(const rewrite::HelloReply& said);
  void learned();
  void exchange_ended();
  void reply_ended();

  [[nodiscard]] bool refuse_late(Bytes message, std::size_t length);
  [[nodiscard]] bool is_idle() const;
  void answer_hello_late();
  void look_again();

  void protocol_error(std::string_view event, std::string_view what);

  std::uint32_t owners_ = 0;
  IoThread& thread_;
  std::shared_ptr<Upstream> server_;
  Stream downstream_;
  Stream upstream_;
  std::uint64_t id_;
  Direction requests_;
  Direction replies_;
  std::shared_ptr<Connector> connector_;  // until the server connection stands
  std::chrono::nanoseconds connected_{};  // since when it does
  Deadline deadline_;                     // for the client's first bytes, or a message's rest
  bool closed_ = false;
  bool greeting_ = false;    // a TLS handshake with the client is under way
  bool silent_ = true;       // the client has sent nothing yet
  bool looking_ = false;     // while draining: for what the client has sent
  bool seen_empty_ = false;  // the last read of the client's bytes found none
  bool deaf_ = false;        // no later request is read: at a drain, or nobody takes it any more
  bool learning_ = false;    // what a reply to hello says; no later reply is read

  wire::ReplyLedger ledger_;
  // The newest of them, if later ones must wait for it; or what requests_.out still sends from.
  std::unique_ptr<UnderWay> exchange_;
  std::unique_ptr<Waiting> waiting_;   // for its next re-send, or for the id store
  Budget::Share share_;                // of the message that is being collected
  Budget::Share unsent_share_;         // of a large reply that the client has not taken yet
  Budget::Ticket place_ = 0;           // in the budget's queue; 0: none
  std::uint64_t questions_ = 0;        // to the id store so far
  std::optional<Buffer> local_reply_;  // to be sent when nothing is outstanding
  bool has_forwarded_ = false;         // a request
};

}  // namespace idproxy::net
