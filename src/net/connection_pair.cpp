#include "connection_pair.hpp"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <stdexcept>
#include <utility>

#include "idproxy/observability/log.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "tcp.hpp"

namespace idproxy::net {
namespace {

// One direction of one connection is read at most this often before the others have a turn.
constexpr int kReadsPerTurn = 4;
// While a message is collected, reads ask for at least and at most this much.
constexpr std::size_t kSmallestRead = std::size_t{16} * 1024;
constexpr std::size_t kFirstGrowth = std::size_t{64} * 1024;
constexpr std::size_t kLittleRead = std::size_t{4} * 1024;

}  // namespace

/// One exchange, and what it holds.
struct ConnectionPair::UnderWay : rewrite::Exchange {
  using Exchange::Exchange;
  Budget::Share share;        // of the request
  Budget::Share reply_share;  // of a large reply that is being collected
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point sent{};
  std::chrono::nanoseconds at_server{};
  bool legacy = false;  // an OP_QUERY
};

/// Until an exchange may go on.
struct ConnectionPair::Waiting {
  explicit Waiting(asio::io_context& io) : timer(io) {}
  Timer timer;
  std::uint64_t question = 0;  // to the id store; 0: none
  ids::Ticket ticket;
};

namespace {

/// Brings news to a pair's thread, from any other; the pair may be gone by then. The thread's loop
/// does not end before.
class Messenger {
 public:
  Messenger(IoThread& thread, std::uint64_t pair)
      : thread_(thread), loop_(thread.io.get_executor()), pair_(pair) {}

  /// Calls `work(pair)` there. Once.
  template <class Work>
  void deliver(Work work) {
    asio::post(loop_.get_executor(),
               [&thread = thread_, pair = pair_, work = std::move(work)]() mutable {
                 const auto found = thread.pairs.find(pair);
                 if (found != thread.pairs.end()) work(*found->second);
               });
  }

 private:
  IoThread& thread_;
  asio::executor_work_guard<asio::io_context::executor_type> loop_;
  std::uint64_t pair_;
};

}  // namespace

class ConnectionPair::StoreAnswer final : public ids::Asker {
 public:
  StoreAnswer(ConnectionPair& pair, std::uint64_t question)
      : messenger_(pair.thread_, pair.id_), question_(question) {}

  void answered(ids::Result<ids::Grant> grant) override {
    messenger_.deliver(
        [question = question_, answer = std::move(grant)](ConnectionPair& pair) mutable {
          pair.store_answered(question, std::move(answer));
        });
  }

 private:
  Messenger messenger_;
  std::uint64_t question_;
};

void ConnectionPair::start(IoThread& thread, Socket downstream,
                           std::shared_ptr<Upstream> upstream) {
  Self pair;
  try {
    pair = std::make_unique<ConnectionPair>(thread, std::move(downstream), std::move(upstream))
               .release();
  } catch (const std::exception&) {
    thread.shared.count_closed();  // the listener counted it
    return;
  }
  pair->guarded([&] { pair->begin(); });
}

std::vector<ConnectionPair::Self> ConnectionPair::all_of(const IoThread& thread) {
  std::vector<Self> all;
  all.reserve(thread.pairs.size());
  for (const auto& [id, pair] : thread.pairs) all.emplace_back(pair);
  return all;
}

void intrusive_ptr_release(ConnectionPair* pair) {
  if (--pair->owners_ == 0) const std::unique_ptr<ConnectionPair> last(pair);
}

ConnectionPair::ConnectionPair(IoThread& thread, Socket downstream,
                               std::shared_ptr<Upstream> upstream)
    : thread_(thread),
      server_(std::move(upstream)),
      downstream_(thread.io, thread.tls),
      upstream_(thread.io, thread.tls),
      id_(++thread.shared.last_connection_id),
      deadline_(*this) {
  auto engine = thread_.client_tls ? tls::Engine::accept(thread_.client_tls) : nullptr;
  downstream_.open(std::move(downstream), std::move(engine));
  greeting_ = thread_.client_tls != nullptr;
  thread_.pairs.emplace(id_, this);
  ++server_->connections;
}

ConnectionPair::~ConnectionPair() {
  close();
}

void ConnectionPair::close() {
  if (closed_) return;
  closed_ = true;
  const auto connector = std::exchange(connector_, nullptr);
  downstream_.close();
  upstream_.close();
  deadline_.stop();
  waiting_.reset();
  share_.reset();
  unsent_share_.reset();
  if (exchange_) exchange_->share.reset();
  Shared& shared = thread_.shared;
  if (place_ != 0) shared.budget.leave(place_);
  thread_.pairs.erase(id_);
  --server_->connections;
  shared.count_closed();
  if (connector) connector->cancel();  // last: it may hold the last reference to this pair
}

// ---- the server connection -------------------------------------------------------------------

void ConnectionPair::begin() {
  if (thread_.draining) return close();
  if (!greeting_) return greeted();
  thread_.tls_handshake.start(deadline_, expired<&ConnectionPair::made_no_handshake>);
  // Asked now: one that has gone has no name any more.
  std::string client = peer_name(downstream_.socket());
  downstream_.handshake([self = Self(this), client = std::move(client)](std::string_view fault) {
    self->guarded([&] {
      if (fault.empty()) return self->greeted();
      // Health checks connect and leave.
      if (fault != Stream::kLeft) return self->tls_failed(client, fault);
      self->close();
    });
  });
}

/// The client may speak now.
void ConnectionPair::greeted() {
  greeting_ = false;
  thread_.first_byte.start(deadline_, expired<&ConnectionPair::sent_nothing>);
  connect();
  wait_source(requests_);
}

void ConnectionPair::tls_failed(std::string_view client, std::string_view reason) {
  thread_.cells[Counted::tls_failures_client].add();
  log::event(log::Level::warning, "tls_failed", "no TLS connection with a client",
             {{"connection", id_}, {"client", client}, {"reason", reason}});
  close();
}

void ConnectionPair::connect() {
  connector_ =
      Connector::start(thread_, server_, [self = Self(this)](Stream* stream, bool gave_up) {
        self->connector_ = nullptr;
        if (self->closed_) return;
        if (stream == nullptr) {
          Cells& cells = self->thread_.cells;
          cells[gave_up ? Counted::closed_descriptors : Counted::closed_connect].add();
          return self->close();
        }
        self->guarded([&] { self->connected(std::move(*stream)); });
      });
}

void ConnectionPair::connected(Stream stream) {
  upstream_ = std::move(stream);
  connected_ = thread_.shared.clock.monotonic();
  if (log::enabled(log::Level::debug)) {
    log::event(log::Level::debug, "connection_opened", "client connected",
               {{"connection", id_},
                {"client", peer_name(downstream_.socket())},
                {"server", server_->name}});
  }
  wait_source(replies_);
  if (!requests_.held.empty()) return resume(requests_);
  if (downstream_.has_received()) return read(requests_);
  wait_source(requests_);
}

/// Runs a handler's work. What it throws, memory that cannot be had above all, ends this pair and
/// no other.
template <class Work>
void ConnectionPair::guarded(Work work) {
  try {
    work();
    if (!thread_.draining) return;
    answer_hello_late();
    while (is_idle()) {
      if (deaf_ || seen_empty_) return close();
      look_again();
    }
  } catch (const std::exception& error) {
    close();  // first, since it gives memory back
    log::event(log::Level::error, "connection_failed", "an error ended one client's connection",
               {{"connection", id_}, {"reason", error.what()}});
  }
}

// ---- its time is over ------------------------------------------------------------------------

void ConnectionPair::made_no_handshake() {
  thread_.cells[Counted::closed_tls_handshake].add();
  log::event(log::Level::warning, "tls_handshake_timeout",
             "a client has not ended its TLS handshake within limits.tls_handshake",
             {{"connection", id_}, {"client", peer_name(downstream_.socket())}});
  close();
}

/// Not worth a warning: drivers and health checks open connections ahead.
void ConnectionPair::sent_nothing() {
  thread_.cells[Counted::closed_first_byte].add();
  log::event(log::Level::debug, "first_byte_timeout",
             "a client has sent nothing within limits.first_byte",
             {{"connection", id_}, {"client", peer_name(downstream_.socket())}});
  close();
}

void ConnectionPair::sent_half_a_message() {
  thread_.cells[Counted::closed_message].add();
  log::event(log::Level::warning, "message_timeout",
             "a client has not ended a message that it began within limits.message",
             {{"connection", id_}, {"client", peer_name(downstream_.socket())}});
  close();
}

/// Watches that a message that the client has begun comes to its end, as long as nobody but the
/// client holds it up.
void ConnectionPair::watch_message() {
  if (silent_) return;
  const bool begun = requests_.frames.inside() || !requests_.held.empty();
  if (!begun || blocked(requests_)) return deadline_.stop();
  if (!deadline_.runs())
    thread_.message.start(deadline_, expired<&ConnectionPair::sent_half_a_message>);
}

// ---- draining --------------------------------------------------------------------------------

bool ConnectionPair::tell_monitor() {
  const Self self(this);
  guarded([&] { answer_hello_late(); });
  return deaf_;
}

void ConnectionPair::drain() {
  const Self self(this);
  guarded([&] {
    if (greeting_) return close();
    seen_empty_ = false;  // it may have been long ago
    // What has come already is answered without the server.
    if (connector_) std::exchange(connector_, nullptr)->cancel();
    if (!requests_.held.empty()) resume(requests_);
  });
}

/// Reads what has come and was not met yet. The wait for it may have received something already,
/// and its handler be on the way: it is that handler that goes on, early.
void ConnectionPair::look_again() {
  if (closed_ || blocked(requests_)) return;
  if (!requests_.waiting) return read(requests_);
  looking_ = true;
  error_code ignored;
  downstream_.socket().cancel(ignored);
}

bool ConnectionPair::is_idle() const {
  if (closed_ || greeting_ || looking_ || learning_ || ledger_.outstanding() > 0 || exchange_ ||
      local_reply_) {
    return false;
  }
  if (!requests_.out.empty() || !replies_.out.empty()) return false;
  return deaf_ || (requests_.held.empty() && !requests_.frames.inside());
}

/// A hello that waits for news, or streams them, would do so for as long as it likes.
void ConnectionPair::answer_hello_late() {
  if (closed_ || !exchange_ || !exchange_->is_hello() || exchange_->legacy) return;
  if (!exchange_->awaits_reply() || ledger_.outstanding() != 1 || learning_) return;
  if (!requests_.out.empty()) return close();  // it has not even been sent whole
  Buffer& reply = thread_.workspace.reply;
  reply.clear();
  rewrite::append_shutdown_reply_to(exchange_->request_id(),
                                    static_cast<std::int32_t>(thread_.workspace.next_request_id++),
                                    reply);
  thread_.cells[Counted::requests_shutdown].add();
  ledger_.answered();
  deaf_ = true;
  relay(replies_, reply.view());
  if (!closed_) exchange_ended();
}

/// A request that came while draining, of which `message` is there. True if it is dealt with;
/// false: there is to be more of it, or nothing is read any more.
bool ConnectionPair::refuse_late(Bytes message, std::size_t length) {
  // Longer ones are not worth waiting for: the end of the connection says the same.
  constexpr std::size_t kLongest = std::size_t{1024} * 1024;
  if (length > kLongest) {
    deaf_ = true;
    return false;
  }
  if (message.size() < length) {
    requests_.wanted = length;
    return false;
  }
  Buffer reply;
  const auto id = static_cast<std::int32_t>(thread_.workspace.next_request_id++);
  if (!rewrite::append_shutdown_reply(message, id, reply)) {
    deaf_ = true;
    return false;
  }
  thread_.cells[Counted::requests_shutdown].add();
  local_reply_ = std::move(reply);
  deliver_local_reply();
  return true;
}

// ---- both directions -------------------------------------------------------------------------

bool ConnectionPair::blocked(const Direction& direction) const {
  if (closed_ || !direction.out.empty()) return true;
  if (!is_request(direction)) return learning_;
  return exchange_ || local_reply_ || connector_ || place_ != 0 || deaf_;
}

void ConnectionPair::wait_source(Direction& direction) {
  if (closed_) return;
  if (is_request(direction)) watch_message();
  if (direction.waiting || direction.source_ended) return;
  Stream& source = source_of(direction);
  // What has been received waits for resume(); and who goes on sending, meanwhile, for it to read.
  const bool enough = source.has_received() || direction.held.size() > IoThread::kReadSize;
  if (enough && blocked(direction)) return;
  direction.waiting = true;
  source.wait_readable([self = Self(this), &direction](error_code error) {
    direction.waiting = false;
    if (self->closed_) return;
    if (self->is_request(direction)) self->looking_ = false;
    self->guarded([&] {
      if (error == asio::error::operation_aborted) return self->on_readable(direction);
      if (error == asio::error::eof) return self->source_ended(direction);
      if (error) return self->source_broke(direction);
      self->on_readable(direction);
    });
  });
}

void ConnectionPair::on_readable(Direction& direction) {
  // What TLS itself has to say is no word of the client's.
  if (is_request(direction) && !downstream_.is_secure()) heard();
  if (!blocked(direction)) return read(direction);
  // A request behind it waits for resume(). While there is none, the client's leaving is noticed at
  // once.
  if (!is_request(direction) || !direction.out.empty()) return;
  if (downstream_.is_secure()) {
    if (!direction.held.empty()) return;
    read_to_hold(direction);
    if (!closed_ && direction.held.empty()) wait_source(direction);
  } else if (!downstream_.has_received() && downstream_.is_at_end()) {
    close();
  }
}

void ConnectionPair::read(Direction& direction) {
  using Status = Stream::Received::Status;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const Stream::Received received = read_some(direction);
    if (received.status == Status::ended) return source_ended(direction);
    if (received.status == Status::broken) return source_broke(direction);
    if (is_request(direction)) seen_empty_ = received.status == Status::none && !received.more;
    if (received.status == Status::none) {
      if (received.more) continue;
      break;
    }
    count_received(direction, received.bytes);
    if (direction.held.empty()) {
      process(direction, {thread_.read_buffer.get(), received.bytes});
    } else if (direction.held.size() >= direction.wanted) {
      process(direction, direction.held.view());
    }
    if (blocked(direction) || !received.more) break;
  }
  // With unsent bytes, on_writable() goes on.
  if (direction.out.empty()) wait_source(direction);
}

/// Into the thread's buffer, or behind what is held.
Stream::Received ConnectionPair::read_some(Direction& direction) {
  Stream& source = source_of(direction);
  Buffer& held = direction.held;
  if (held.empty()) {
    // While messages have to wait for room, the beginnings of many are held.
    const bool little =
        is_request(direction) && !direction.frames.inside() && thread_.shared.budget.is_scarce();
    return source.read({thread_.read_buffer.get(), little ? kLittleRead : IoThread::kReadSize});
  }
  // Grows with what has come, not with what is announced.
  const std::size_t size = held.size();
  const std::size_t missing = direction.wanted > size ? direction.wanted - size : 0;
  std::size_t room = std::clamp(missing, kSmallestRead, std::max(size, kFirstGrowth));
  room = std::max(room, std::min(held.capacity() - size, IoThread::kReadSize));
  const Stream::Received received = source.read({held.extend(room), room});
  held.truncate(size + received.bytes);
  return received;
}

/// Reads behind what is held: while the thread's buffer is not free.
void ConnectionPair::read_to_hold(Direction& direction) {
  Stream& source = source_of(direction);
  if (direction.held.capacity() == 0) direction.held = thread_.take_buffer();
  const std::size_t size = direction.held.size();
  const Stream::Received received =
      source.read({direction.held.extend(kSmallestRead), kSmallestRead});
  direction.held.truncate(size + received.bytes);
  if (direction.held.empty()) thread_.give_back(std::move(direction.held));
  using Status = Stream::Received::Status;
  if (received.status == Status::ended) return source_ended(direction);
  if (received.status == Status::broken) return source_broke(direction);
  count_received(direction, received.bytes);
}

void ConnectionPair::count_received(const Direction& direction, std::size_t bytes) {
  if (!is_request(direction)) {
    server_->heard(connected_);
    return thread_.cells[Counted::bytes_from_servers].add(bytes);
  }
  thread_.cells[Counted::bytes_from_clients].add(bytes);
  if (bytes > 0) heard();
}

/// The client has sent something.
void ConnectionPair::heard() {
  if (std::exchange(silent_, false)) deadline_.stop();
}

void ConnectionPair::source_ended(Direction& direction) {
  direction.source_ended = true;
  if (!is_request(direction)) server_lost();
  // What came before the end still gets there: resume(), on_writable() or learned() closes then.
  if (is_request(direction) ? leaves_something() : learning_) return;
  if (direction.out.empty()) close();
}

/// Of a client that has gone: requests, of which some may be those that nobody waits for an answer
/// to.
bool ConnectionPair::leaves_something() const {
  if (waiting_ && exchange_ && !exchange_->acknowledged()) return true;
  const Bytes held = requests_.held.view();
  if (requests_.frames.inside() || held.size() < wire::kHeaderSize) return false;
  return wire::read_header(held).message_length <= static_cast<std::int64_t>(held.size());
}

void ConnectionPair::source_broke(const Direction& direction) {
  if (is_request(direction)) {
    const std::string_view fault = downstream_.fault();
    if (!fault.empty()) return tls_failed(peer_name(downstream_.socket()), fault);
  } else {
    server_lost();
  }
  close();
}

void ConnectionPair::server_lost() {
  // With TLS 1.3 a server refuses our certificate after the handshake; mongod without a word, as it
  // does with what a client sends that is no message.
  std::string fault(upstream_.fault());
  if (fault.empty() && !has_forwarded_) fault = upstream_.why_closed();
  if (!fault.empty()) Connector::tls_failed(thread_, *server_, fault);
  thread_.shared.news->lost(*server_);
}

void ConnectionPair::process(Direction& direction, Bytes input) {
  direction.wanted = 0;
  const std::size_t consumed =
      &direction == &requests_ ? process_requests(input) : process_replies(input);
  settle(direction, input, consumed);
}

/// Keeps what was not consumed of `input`, which is the thread's buffer, or what is held, or was
/// held until an OutQueue took the memory over.
void ConnectionPair::settle(Direction& direction, Bytes input, std::size_t consumed) {
  Buffer& held = direction.held;
  if (held.empty()) {
    if (consumed == input.size()) return;
    if (held.capacity() == 0) held = thread_.take_buffer();
    held.append(input.subspan(consumed));
    return;
  }
  held.drop_front(consumed);
  if (!held.empty()) return;
  thread_.give_back(std::move(held));
}

void ConnectionPair::relay(Direction& direction, Bytes bytes) {
  Cells& cells = thread_.cells;
  cells[is_request(direction) ? Counted::bytes_to_servers : Counted::bytes_to_clients].add(
      bytes.size());
  queued(direction, direction.out.send(sink_of(direction), bytes));
}

void ConnectionPair::queued(Direction& direction, OutQueue::Status status) {
  if (status == OutQueue::Status::blocked) wait_sink(direction);
  if (status != OutQueue::Status::failed) return;
  if (!is_request(direction)) return close();
  // What the server said before it broke off is still there: replies, and why it ended TLS. Its end
  // comes behind them.
  deaf_ = true;
  upstream_.shut_down();
  // Even if it is being read just now: who reads on has read so much that this wait receives
  // nothing itself.
  wait_source(replies_);
}

void ConnectionPair::wait_sink(Direction& direction) {
  if (direction.draining || closed_) return;
  direction.draining = true;
  if (is_request(direction)) watch_message();
  sink_of(direction).wait_writable([self = Self(this), &direction](error_code error) {
    direction.draining = false;
    if (self->closed_) return;
    // look_again() cancels this wait too.
    if (error == asio::error::operation_aborted) return self->wait_sink(direction);
    if (!error) self->guarded([&] { self->on_writable(direction); });
  });
}

void ConnectionPair::on_writable(Direction& direction) {
  const OutQueue::Status status = direction.out.flush(sink_of(direction));
  if (status != OutQueue::Status::done) return queued(direction, status);
  if (!is_request(direction)) unsent_share_.reset();
  if (direction.source_ended && !(is_request(direction) && leaves_something())) return close();
  const bool written = is_request(direction) && exchange_ && !waiting_;
  if (written && !exchange_->awaits_reply()) exchange_ended();
  resume(direction);
  if (!is_request(direction) && local_reply_) {
    deliver_local_reply();
    resume(requests_);
  }
}

/// Goes on after whatever blocked the direction is gone, first with what is held. Does not read
/// into the thread's buffer: the caller may be using it.
void ConnectionPair::resume(Direction& direction) {
  if (blocked(direction)) {
    // Blocked by an exchange: the source is watched for its end.
    if (!closed_ && direction.out.empty()) wait_source(direction);
    return;
  }
  if (source_of(direction).has_received()) read_to_hold(direction);
  if (closed_) return;
  if (!direction.held.empty() && direction.held.size() >= direction.wanted) {
    process(direction, direction.held.view());
  }
  if (closed_ || !direction.out.empty()) return;
  if (direction.source_ended && !blocked(direction)) return close();
  wait_source(direction);
}

void ConnectionPair::protocol_error(std::string_view event, std::string_view what) {
  thread_.cells[Counted::closed_protocol].add();
  log::event(log::Level::warning, event, what,
             {{"connection", id_},
              {"client", peer_name(downstream_.socket())},
              {"server", server_->name}});
  close();
}

// ---- requests --------------------------------------------------------------------------------

std::size_t ConnectionPair::process_requests(Bytes input) {
  std::size_t at = 0;
  Bytes pending;  // relayed, not sent yet: a run of messages goes out in one write
  const auto pass_on = [&] {
    if (!pending.empty()) relay(requests_, std::exchange(pending, {}));
  };
  while (at < input.size() && !blocked(requests_)) {
    const Bytes rest = input.subspan(at);
    const auto front = requests_.frames.look(rest);
    std::size_t taken = 0;
    if (front.kind == wire::FrameReader::Kind::need_more) {
      requests_.wanted = wire::kHeaderSize;
      break;
    }
    if (!has_forwarded_ && front.kind != wire::FrameReader::Kind::inside && tls::begins_tls(rest)) {
      protocol_error("tls_on_plain_port",
                     "a client speaks TLS where listen.tls.mode is off: either is to be changed");
      break;
    }
    if (front.kind == wire::FrameReader::Kind::malformed) {
      protocol_error("bad_message_length",
                     "a client's message length is not between 16 and 48000000");
      break;
    }
    if (front.kind == wire::FrameReader::Kind::begin) {
      const auto length = static_cast<std::size_t>(front.header.message_length);
      const Bytes message = rest.first(std::min(length, rest.size()));
      if (thread_.draining && rewrite::expects_reply(front.header, message)) {
        pass_on();
        if (blocked(requests_) || !refuse_late(message, length)) break;
        at += length;
        continue;
      }
      const auto decision = rewrite::classify(front.header, message, thread_.workspace.namespaces,
                                              thread_.workspace.x509);
      using Kind = rewrite::Decision::Kind;
      if (decision.kind == Kind::close) {
        protocol_error("compressed_message",
                       "a client sent OP_COMPRESSED, which was not negotiated");
        break;
      }
      const bool collect = decision.kind == Kind::collect;
      const std::size_t needed = decision.kind == Kind::need_more ? decision.bytes
                                 : collect                        ? length
                                                                  : 0;
      // A driver's small questions do not wait behind large inserts: it would take the server for
      // dead.
      if ((decision.is_insert || needed > kFirstGrowth) && !admit(length)) break;
      if (decision.kind == Kind::need_more || message.size() < needed) {
        requests_.wanted = needed;
        break;
      }
      deadline_.stop();
      if (collect) {
        pass_on();
        if (blocked(requests_)) break;
        exchange(message);
        at += length;
        continue;
      }
      share_.reset();
      thread_.cells[Counted::requests_relayed].add();
      forwarded(front.header, message);
      requests_.frames.pass(front.header);
      taken = message.size();
    } else {
      taken = front.bytes;
    }
    if (requests_.frames.took(taken)) deadline_.stop();
    pending = {pending.empty() ? rest.data() : pending.data(), pending.size() + taken};
    at += taken;
  }
  if (!closed_) pass_on();
  return at;
}

/// True if the message may be held whole. If not yet, admitted() follows.
bool ConnectionPair::admit(std::size_t length) {
  if (share_.bytes() >= length) return true;
  Budget& budget = thread_.shared.budget;
  share_ = budget.take(length);
  if (share_.bytes() > 0) return true;
  place_ = budget.wait(length, [&thread = thread_, id = id_](Budget::Share share) {
    Messenger(thread, id).deliver([given = std::move(share)](ConnectionPair& pair) mutable {
      pair.admitted(std::move(given));
    });
  });
  return false;
}

void ConnectionPair::admitted(Budget::Share share) {
  place_ = 0;
  share_ = std::move(share);
  const Self self(this);
  guarded([&] { resume(requests_); });
}

void ConnectionPair::forwarded(const wire::MsgHeader& header, Bytes front) {
  has_forwarded_ = true;
  if (!rewrite::expects_reply(header, front)) return;
  ledger_.forwarded(header.request_id);
  if (rewrite::is_legacy_exhaust(header, front)) ledger_.permit_unrequested();
}

void ConnectionPair::exchange(Bytes message) {
  rewrite::Workspace& workspace = thread_.workspace;
  Buffer& held = requests_.held;
  const bool owns = held.data() == message.data() && held.size() == message.size();
  exchange_ = std::make_unique<UnderWay>(server_->id);
  exchange_->share = std::move(share_);
  exchange_->legacy = wire::read_header(message).op_code != wire::OpCode::msg;
  begin_exchange(exchange_->request(message, owns ? &held : nullptr, workspace), message);
}

/// It is decided what becomes of the exchange's request, which is `message`.
void ConnectionPair::begin_exchange(const rewrite::Action& action, Bytes message) {
  namespace act = rewrite::action;
  if (const auto* ask = std::get_if<act::AskStore>(&action)) return ask_store(*ask);
  const auto* send = std::get_if<act::Send>(&action);
  const auto* reply = std::get_if<act::Reply>(&action);
  const bool relays = std::holds_alternative<act::Relay>(action);
  if (send == nullptr && reply == nullptr && !relays) {
    throw std::logic_error("a request cannot be rewritten");
  }
  report(*exchange_);
  if (reply != nullptr) return answer_here(reply->message);
  if (exchange_->is_hello()) exchange_->share.reset();  // may last as long as its stream
  if (relays && !exchange_->is_hello()) {
    thread_.cells[Counted::requests_relayed].add();
  }
  forwarded(wire::read_header(message), message);
  if (send != nullptr) return send_exchange(*send);
  exchange_->sent = std::chrono::steady_clock::now();
  if (!exchange_->awaits_reply()) exchange_ended();
  relay(requests_, message);
}

void ConnectionPair::answer_here(Bytes reply) {
  thread_.cells[Counted::requests_refused].add();
  if (!reply.empty()) local_reply_.emplace().append(reply);  // w:0: nobody waits for an answer
  exchange_ended();
  deliver_local_reply();
}

/// Until store_answered().
void ConnectionPair::ask_store(const rewrite::action::AskStore& need) {
  const std::uint64_t question = ++questions_;
  waiting_ = std::make_unique<Waiting>(thread_.io);
  waiting_->question = question;
  waiting_->timer.expires_after(need.patience);
  waiting_->timer.async_wait([self = Self(this), question](error_code error) {
    if (error) return;
    self->store_answered(
        question, ids::Error{ids::Errc::unavailable, "the id store has not answered in time"});
  });
  waiting_->ticket = need.strategy->ask(need.count, std::make_unique<StoreAnswer>(*this, question));
}

void ConnectionPair::store_answered(std::uint64_t question, ids::Result<ids::Grant> grant) {
  // An answer that comes too late goes back to the store with the grant.
  if (closed_ || !waiting_ || waiting_->question != question) return;
  waiting_.reset();
  const Self self(this);
  guarded([&] {
    const bool sent = exchange_->awaits_reply();
    const auto action = exchange_->answered(std::move(grant), thread_.workspace);
    if (sent) return act(action, {});
    begin_exchange(action, exchange_->original());
    resume(requests_);
  });
}

void ConnectionPair::send_exchange(const rewrite::action::Send& send) {
  thread_.cells[Counted::bytes_to_servers].add(send.message->size());
  const auto status = requests_.out.send(upstream_, *send.message, send.original);
  exchange_->sent = std::chrono::steady_clock::now();
  if (status == OutQueue::Status::done && !exchange_->awaits_reply()) exchange_ended();
  queued(requests_, status);
}

void ConnectionPair::exchange_ended() {
  if (const auto given_up = exchange_->given_up()) {
    log::event(log::Level::warning, "duplicates_given_up",
               "generated values stayed duplicates within the bounds of the rule's retry; the "
               "client got mongod's error",
               {{"connection", id_},
                {"ns", given_up->ns},
                {"field", given_up->rule->field},
                {"attempts", given_up->attempts}});
  }
  if (exchange_->assigned() > 0) {
    thread_.cells.insert_added.observe(std::chrono::steady_clock::now() - exchange_->began -
                                       exchange_->at_server);
  }
  thread_.give_back(exchange_->release(thread_.workspace));
  thread_.workspace.trim();
  exchange_.reset();
  waiting_.reset();
}

/// What was answered here goes out when everything before it has been answered.
void ConnectionPair::deliver_local_reply() {
  if (!local_reply_ || ledger_.outstanding() > 0 || !replies_.out.empty()) return;
  const Buffer reply = std::move(*local_reply_);
  local_reply_.reset();
  relay(replies_, reply.view());
}

void ConnectionPair::report(const rewrite::Exchange& exchange) {
  Cells& cells = thread_.cells;
  if (exchange.is_hello()) cells[Counted::requests_hello].add();
  if (exchange.is_status()) cells[Counted::requests_status].add();
  if (exchange.assigned() > 0) {
    cells[Counted::requests_insert].add();
    cells[Counted::documents_refused].add(exchange.refused());
  }
  const rewrite::Assignment* rule = exchange.driver_made();
  if (rule == nullptr || rule->outcomes->driver_made_told.exchange(true)) return;
  log::event(
      log::Level::warning, "driver_made_ids",
      "all documents of an insert brought an _id that their driver made, so the rule had "
      "nothing to assign: make the driver leave _id out "
      "(docs/drivers.md#documents-without-an-_id), or set assign: driver, and then the insertedId "
      "that the driver reports is not the stored one",
      {{"rule", rule->rule_index}, {"ns", rule->rule->ns}, {"field", rule->rule->field}});
}

// ---- replies ---------------------------------------------------------------------------------

std::size_t ConnectionPair::process_replies(Bytes input) {
  std::size_t at = 0;
  Bytes pending;
  const auto pass_on = [&] {
    if (!pending.empty()) relay(replies_, std::exchange(pending, {}));
  };
  while (at < input.size() && !blocked(replies_)) {
    const Bytes rest = input.subspan(at);
    const auto front = replies_.frames.look(rest);
    std::size_t taken = front.bytes;
    if (front.kind == wire::FrameReader::Kind::malformed) {
      protocol_error("bad_reply", "a server's message length is not between 16 and 48000000");
      break;
    }
    if (front.kind == wire::FrameReader::Kind::need_more) {
      replies_.wanted = wire::kHeaderSize;
      break;
    }
    if (front.kind == wire::FrameReader::Kind::begin) {
      const std::size_t needed = reply_bytes_needed(front.header);
      if (rest.size() < needed) {
        // It cannot wait for room: its request holds some.
        if (needed > kFirstGrowth && exchange_ && exchange_->reply_share.bytes() == 0) {
          exchange_->reply_share = thread_.shared.budget.overdraw(needed);
        }
        replies_.wanted = needed;
        break;
      }
      const auto length = static_cast<std::size_t>(front.header.message_length);
      const Bytes message = rest.first(std::min(length, rest.size()));
      // A late answer to the hello that has been answered here already.
      if (deaf_ && ledger_.outstanding() == 0) {
        replies_.source_ended = true;
        if (replies_.out.empty()) close();
        break;
      }
      if (const auto fault = fault_of(front.header); !fault.empty()) {
        protocol_error("bad_reply", fault);
        break;
      }
      if (answers_exchange()) {
        pass_on();
        if (blocked(replies_)) break;
        at += length;
        ledger_.answered();
        exchange_->at_server += std::chrono::steady_clock::now() - exchange_->sent;
        if (exchange_->is_hello()) {
          thread_.workspace.members = thread_.shared.directory.members();
        }
        act(exchange_->reply(message, thread_.workspace), message);
        continue;
      }
      begin_reply(front.header, message);
      replies_.frames.pass(front.header);
      taken = message.size();
    }
    const bool ended = replies_.frames.took(taken);
    pending = {pending.empty() ? rest.data() : pending.data(), pending.size() + taken};
    at += taken;
    if (ended && !ledger_.is_last() && thread_.draining) {
      pass_on();
      if (closed_) break;
      // A stream would last as long as it likes.
      replies_.source_ended = true;
      if (replies_.out.empty()) close();
      break;
    }
    if (!ended || !ledger_.is_last()) continue;
    // Only an exchange, a local reply or a request that has come already waits for the end of a
    // reply; other replies of one read go out together.
    if (exchange_ || local_reply_ || downstream_.has_received()) pass_on();
    if (!closed_) reply_ended();
  }
  if (!closed_) pass_on();
  return at;
}

/// How much of a reply must be there before it can be passed on: flags to tell whether more replies
/// follow, and all of it where it is looked into.
std::size_t ConnectionPair::reply_bytes_needed(const wire::MsgHeader& header) const {
  const auto length = static_cast<std::size_t>(header.message_length);
  if (answers_exchange()) return length;
  return header.op_code == wire::OpCode::msg ? std::min(length, wire::kSectionsOffset)
                                             : wire::kHeaderSize;
}

/// The next reply is the one that the exchange waits for.
bool ConnectionPair::answers_exchange() const {
  return exchange_ && exchange_->awaits_reply() && ledger_.outstanding() == 1;
}

/// Why the reply cannot be what the client is owed, or "".
std::string_view ConnectionPair::fault_of(const wire::MsgHeader& header) {
  using Owed = wire::ReplyLedger::Owed;
  if (ledger_.unrequested_permitted() && !answers_exchange()) return {};
  const Owed owed = ledger_.owed(header);
  if (owed == Owed::to_nobody) return "the server sent a reply that nobody had asked for";
  if (owed == Owed::to_other) return "a server's reply belongs to no request of this connection";
  if (answers_exchange() && !requests_.out.empty()) {
    return "the server replied to a request that had not been sent whole";
  }
  return {};
}

void ConnectionPair::begin_reply(const wire::MsgHeader& header, Bytes front) {
  const bool msg = header.op_code == wire::OpCode::msg && front.size() >= wire::kSectionsOffset;
  const bool more =
      msg && (load_u32(front.data() + wire::kFlagsOffset) & wire::flag::kMoreToCome) != 0;
  more ? ledger_.begin_with_more(header) : ledger_.begin_last();
}

/// `reply`: the message that led to the action, if one did.
void ConnectionPair::act(const rewrite::Action& action, Bytes reply) {
  namespace act = rewrite::action;
  if (std::holds_alternative<act::Close>(action)) {
    return protocol_error("bad_reply", "a server's reply cannot be understood");
  }
  if (const auto* wait = std::get_if<act::Wait>(&action)) return wait_to_resume(wait->delay);
  if (const auto* ask = std::get_if<act::AskStore>(&action)) return ask_store(*ask);
  if (const auto* learns = std::get_if<act::Learn>(&action)) return learn(*learns->said);
  if (const auto* send = std::get_if<act::Send>(&action)) {
    ledger_.forwarded(exchange_->request_id());
    return send_exchange(*send);
  }
  const auto* ours = std::get_if<act::Reply>(&action);
  const Bytes answer = ours == nullptr ? reply : ours->message;
  relay(replies_, answer);
  if (closed_) return;
  if (!replies_.out.empty() && answer.size() > kFirstGrowth) {
    unsent_share_ = thread_.shared.budget.overdraw(answer.size());
  }
  if (exchange_->streams()) return ledger_.forwarded(exchange_->request_id());
  exchange_ended();
  resume(requests_);
}

/// Until learned().
void ConnectionPair::learn(const rewrite::HelloReply& said) {
  learning_ = true;
  const auto messenger = std::make_shared<Messenger>(thread_, id_);
  thread_.shared.news->learn(server_->id, said, [messenger] {
    messenger->deliver([](ConnectionPair& pair) { pair.learned(); });
  });
}

void ConnectionPair::learned() {
  const Self self(this);
  guarded([&] {
    learning_ = false;
    thread_.workspace.members = thread_.shared.directory.members();
    act(exchange_->learned(thread_.workspace), {});
    if (replies_.source_ended && replies_.out.empty()) return close();
    resume(replies_);
  });
}

void ConnectionPair::wait_to_resume(std::chrono::nanoseconds delay) {
  waiting_ = std::make_unique<Waiting>(thread_.io);
  waiting_->timer.expires_after(delay);
  waiting_->timer.async_wait([self = Self(this)](error_code error) {
    if (error || self->closed_) return;
    self->guarded([&] { self->act(self->exchange_->resume(self->thread_.workspace), {}); });
  });
}

void ConnectionPair::reply_ended() {
  ledger_.answered();
  if (ledger_.outstanding() > 0) return;
  if (local_reply_) deliver_local_reply();
  resume(requests_);
}

}  // namespace idproxy::net
