#include "net/connection_pair.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "idproxy/observability/log.hpp"
#include "idproxy/rewrite/reply.hpp"
#include "idproxy/wire/expects_reply.hpp"
#include "net/tcp.hpp"
#include "net/unreachable.hpp"

namespace idproxy::net {
namespace {

// How much to read at once from an idle client while there is little room.
constexpr std::size_t kLittleRead = std::size_t{4} * 1024;
// Replies larger than this count against limits.buffered_messages.
constexpr std::size_t kUnbudgetedReply = std::size_t{64} * 1024;

/// Delivers results from any thread to a pair's own thread. The pair may be gone by then. Keeps the
/// thread's loop running.
class Messenger {
 public:
  Messenger(IoThread& thread, std::uint64_t pair)
      : thread_(thread), guard_(thread.loop), pair_(pair) {}

  /// Calls `work(pair)` on the pair's thread. Call once.
  template <class Work>
  void deliver(Work work) {
    thread_.loop.post([&thread = thread_, pair = pair_, work = std::move(work)]() mutable {
      const auto found = thread.pairs.find(pair);
      if (found != thread.pairs.end()) work(*found->second);
    });
  }

 private:
  IoThread& thread_;
  EventLoop::Guard guard_;
  std::uint64_t pair_;
};

}  // namespace

class ConnectionPair::StoreAnswer final : public ids::Waiter {
 public:
  StoreAnswer(ConnectionPair& pair, std::uint64_t question)
      : messenger_(pair.thread_, pair.id_), question_(question) {}

  void answered(ids::Result<ids::Grant> grant) override {
    messenger_.deliver(
        [question = question_, answer = std::move(grant)](ConnectionPair& pair) mutable {
          const Self self(&pair);
          pair.guarded([&] { pair.runner_.answered(question, std::move(answer)); });
        });
  }

 private:
  Messenger messenger_;
  std::uint64_t question_;
};

/// The progress of processing one direction's input.
struct ConnectionPair::Cursor {
  Bytes input;
  std::size_t at = 0;  // the end of the consumed part
  Bytes run{};  // the last consumed bytes, to be passed on: messages in a row go out together

  [[nodiscard]] Bytes front() const { return input.subspan(at); }
  void pass(std::size_t bytes) {
    run = {run.empty() ? input.data() + at : run.data(), run.size() + bytes};
    at += bytes;
  }
};

void ConnectionPair::start(IoThread& thread, FileDescriptor downstream,
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

ConnectionPair::ConnectionPair(IoThread& thread, FileDescriptor downstream,
                               std::shared_ptr<Upstream> upstream)
    : thread_(thread),
      server_(std::move(upstream)),
      downstream_(thread.loop, thread.tls),
      upstream_(thread.loop, thread.tls),
      id_(++thread.shared.last_connection_id),
      request_gate_(thread.shared.budget),
      runner_(*this, thread, server_->id, id_),
      requests_(*this, downstream_, upstream_, thread.buffers, true),
      replies_(*this, upstream_, downstream_, thread.buffers, false),
      timer_(thread.loop),
      deadline_(*this) {
  auto engine = thread_.client_tls ? tls::Engine::accept(thread_.client_tls) : nullptr;
  downstream_.open(std::move(downstream), std::move(engine));
  handshaking_ = thread_.client_tls != nullptr;
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
  requests_.close();
  replies_.close();
  downstream_.close();
  upstream_.close();
  deadline_.stop();
  timer_.cancel();
  runner_.close();
  request_gate_.leave();
  unsent_share_.reset();
  thread_.pairs.erase(id_);
  --server_->connections;
  thread_.shared.count_closed();
  if (connector) connector->cancel();  // last: it may hold the last reference to this pair
}

// ---- opening ---------------------------------------------------------------------------------

void ConnectionPair::begin() {
  if (thread_.draining) return close();
  if (!handshaking_) return greeted();
  thread_.tls_handshake.start(deadline_, expired<&ConnectionPair::made_no_handshake>);
  // Read the name now: after a disconnect the kernel does not know it any more.
  std::string client = peer_name(downstream_.socket());
  downstream_.handshake([self = Self(this), client = std::move(client)](std::string_view fault) {
    self->guarded([&] {
      if (fault.empty()) return self->greeted();
      // Health checks connect and close at once.
      if (fault != Stream::kClosedAtOnce) return self->tls_failed(client, fault);
      self->close();
    });
  });
}

/// The client may send requests from here on.
void ConnectionPair::greeted() {
  handshaking_ = false;
  thread_.first_byte.start(deadline_, expired<&ConnectionPair::sent_nothing>);
  connect();
  requests_.wait_source();
}

void ConnectionPair::tls_failed(std::string_view client, std::string_view reason) {
  thread_.cells[Counted::tls_failures_client].add();
  log::event(log::Level::warning, "tls_failed", "TLS with a client failed",
             {{"connection", id_}, {"client", client}, {"reason", reason}});
  close();
}

void ConnectionPair::connect() {
  auto connector = Connector::start(
      thread_, server_, [self = Self(this)](Stream* stream, const Connector::Failure& failure) {
        self->connector_ = nullptr;
        if (self->closed_) return;
        self->guarded([&] {
          stream == nullptr ? self->not_connected(failure) : self->connected(std::move(*stream));
        });
      });
  // It may have failed at once.
  if (!closed_ && !unreachable_) connector_ = std::move(connector);
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
  replies_.wait_source();
  requests_.resume();
}

/// The client's first request gets the reason as its answer, and ends the connection.
void ConnectionPair::not_connected(const Connector::Failure& failure) {
  thread_.cells[failure.gave_up ? Counted::closed_descriptors : Counted::closed_connect].add();
  if (failure.gave_up) return close();  // others need the descriptor
  unreachable_ =
      std::make_unique<const std::string>(unreachable::message(server_->name, failure.reason));
  if (silent_) thread_.first_request.start(deadline_, expired<&ConnectionPair::close>);
  requests_.resume();
}

void ConnectionPair::server_lost() {
  // With TLS 1.3 a server can refuse our certificate only after the handshake, and mongod then
  // closes without an alert. It also does so if a client sends something that is not a message.
  std::string fault(upstream_.fault());
  if (fault.empty() && !request_gate_.has_forwarded()) fault = upstream_.why_closed();
  if (!fault.empty()) Connector::tls_failed(thread_, *server_, fault);
  thread_.shared.observer->lost(*server_);
}

/// Runs a handler's work. An exception, mostly std::bad_alloc, ends this pair and no other.
template <class Work>
void ConnectionPair::guarded(Work work) {
  try {
    work();
    if (thread_.draining) go_on_draining();
  } catch (const std::exception& error) {
    close();  // first, because it frees memory that the log may need
    log::event(log::Level::error, "connection_failed", "an error ended one client's connection",
               {{"connection", id_}, {"reason", error.what()}});
  }
}

// ---- time limits -----------------------------------------------------------------------------

void ConnectionPair::made_no_handshake() {
  thread_.cells[Counted::closed_tls_handshake].add();
  log::event(log::Level::warning, "tls_handshake_timeout",
             "a client has not finished its TLS handshake within limits.tls_handshake",
             {{"connection", id_}, {"client", peer_name(downstream_.socket())}});
  close();
}

/// Not worth a warning: drivers and health checks open connections in advance.
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
             "a client has not finished a message within limits.message",
             {{"connection", id_}, {"client", peer_name(downstream_.socket())}});
  close();
}

/// Limits the time for the rest of a message that the client has begun, while only the client
/// delays it.
void ConnectionPair::watch_message() {
  if (silent_) return;
  const bool begun = request_gate_.inside() || !requests_.held().empty();
  if (!begun || requests_.blocked()) return deadline_.stop();
  if (!deadline_.runs())
    thread_.message.start(deadline_, expired<&ConnectionPair::sent_half_a_message>);
}

// ---- draining --------------------------------------------------------------------------------

bool ConnectionPair::tell_monitor() {
  const Self self(this);
  guarded([&] { answer_hello_late(); });
  return requests_ended_;
}

void ConnectionPair::drain() {
  const Self self(this);
  guarded([&] {
    if (handshaking_) return close();
    requests_.forget_empty();  // that read may have been long ago
    // Requests that have arrived already are refused without a server.
    if (connector_) std::exchange(connector_, nullptr)->cancel();
    if (!requests_.held().empty()) requests_.resume();
  });
}

void ConnectionPair::go_on_draining() {
  answer_hello_late();
  while (!closed_) {
    const drain::Next next = drain::next(progress());
    if (next == drain::Next::close) return close();
    if (next == drain::Next::wait || requests_.blocked()) return;
    requests_.read();
  }
}

drain::Progress ConnectionPair::progress() const {
  return {.handshaking = handshaking_,
          .busy = runner_.is_busy() || runner_.learning(),
          .unsent = requests_.unsent() || replies_.unsent(),
          .inside_message = request_gate_.inside() || !requests_.held().empty(),
          .ended = requests_ended_,
          .seen_empty = requests_.seen_empty(),
          .outstanding = reply_gate_.ledger().outstanding()};
}

/// An awaitable or streaming hello would keep the connection open without a limit.
void ConnectionPair::answer_hello_late() {
  if (closed_ || reply_gate_.ledger().outstanding() != 1) return;
  const auto request = runner_.waiting_hello();
  if (!request) return;
  if (requests_.unsent()) return close();  // the server has not even got all of it
  Buffer& answer = thread_.workspace.reply;
  answer.clear();
  rewrite::append_shutdown_reply_to(
      *request, static_cast<std::int32_t>(thread_.workspace.next_request_id++), answer);
  thread_.cells[Counted::requests_shutdown].add();
  reply_gate_.ledger().answered();
  requests_ended_ = true;
  reply(answer.view());
  if (!closed_) runner_.abandon();
}

/// Refuses a request of `length` bytes that arrived while draining, of which `front` has been
/// received. False if more of it is needed, or if no more requests are read.
bool ConnectionPair::refuse_late(Bytes front, std::size_t length) {
  using Kind = drain::Late::Kind;
  const auto id = static_cast<std::int32_t>(thread_.workspace.next_request_id++);
  auto late = drain::refuse(front, length, id);
  if (late.kind == Kind::need_more) requests_.need(length);
  if (late.kind == Kind::end) requests_ended_ = true;
  if (late.kind != Kind::refuse) return false;
  thread_.cells[Counted::requests_shutdown].add();
  runner_.reply_locally(std::move(late.reply));
  return true;
}

// ---- both directions -------------------------------------------------------------------------

bool ConnectionPair::holds_up(const Direction& direction) const {
  if (!is_request(direction)) return runner_.learning();
  return runner_.is_busy() || connector_ || request_gate_.queued() || requests_ended_;
}

std::size_t ConnectionPair::read_size(const Direction& direction) const {
  // While many messages wait for room, their beginnings are held: keep those small.
  const bool little =
      is_request(direction) && !request_gate_.inside() && thread_.shared.budget.is_scarce();
  return little ? kLittleRead : BufferPool::kReadSize;
}

void ConnectionPair::woken(Direction& direction, bool writable) {
  guarded([&] { writable ? direction.on_writable() : direction.on_readable(); });
}

void ConnectionPair::waits(const Direction& direction) {
  if (is_request(direction)) watch_message();
}

void ConnectionPair::heard(const Direction& direction) {
  if (is_request(direction) && std::exchange(silent_, false)) deadline_.stop();
}

void ConnectionPair::received(const Direction& direction, std::size_t bytes) {
  if (is_request(direction)) {
    thread_.cells[Counted::bytes_from_clients].add(bytes);
    if (bytes > 0) heard(direction);
  } else {
    server_->heard(connected_);
    thread_.cells[Counted::bytes_from_servers].add(bytes);
  }
}

void ConnectionPair::source_ended(const Direction& direction) {
  if (!is_request(direction)) server_lost();
  // Bytes that arrived before the end are still passed on; then resume(), written() or learned()
  // closes the pair.
  if (is_request(direction) ? leaves_something() : runner_.learning()) return;
  if (!direction.unsent()) close();
}

/// True if a client that has disconnected left requests to carry out: they may be unacknowledged
/// writes, whose client does not wait for a reply.
bool ConnectionPair::leaves_something() const {
  if (runner_.delays_unacknowledged()) return true;
  const Bytes held = requests_.held();
  if (request_gate_.inside() || held.size() < wire::kHeaderSize) return false;
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

void ConnectionPair::written(Direction& direction) {
  if (!is_request(direction)) unsent_share_.reset();
  if (direction.ended() && !(is_request(direction) && leaves_something())) return close();
  if (is_request(direction)) runner_.request_written();
  direction.resume();
  if (!is_request(direction) && runner_.has_local_reply()) {
    runner_.deliver_local_reply();
    requests_.resume();
  }
}

void ConnectionPair::write_failed(const Direction& direction) {
  if (!is_request(direction)) return close();
  // Replies or a TLS alert that the server sent before the connection broke can still be read, and
  // then its end.
  requests_ended_ = true;
  upstream_.shut_down();
  replies_.wait_source();
}

std::size_t ConnectionPair::process(Direction& direction, Bytes input) {
  Cursor cursor{.input = input, .run = {}};
  const bool requests = is_request(direction);
  while (cursor.at < input.size() && !direction.blocked()) {
    if (!(requests ? take_request(cursor) : take_reply(cursor))) break;
  }
  if (!closed_) write_run(direction, cursor);
  return cursor.at;
}

/// Writes the run. True if what follows it may be processed.
bool ConnectionPair::write_run(Direction& direction, Cursor& cursor) {
  const Bytes run = std::exchange(cursor.run, {});
  if (!run.empty()) is_request(direction) ? send(run) : relay_reply(run);
  return !direction.blocked();
}

void ConnectionPair::protocol_error(const ProtocolFault& fault) {
  thread_.cells[Counted::closed_protocol].add();
  log::event(log::Level::warning, fault.event, fault.message,
             {{"connection", id_},
              {"client", peer_name(downstream_.socket())},
              {"server", server_->name}});
  close();
}

// ---- requests --------------------------------------------------------------------------------

bool ConnectionPair::take_request(Cursor& cursor) {
  using Kind = RequestGate::Step::Kind;
  const Bytes front = cursor.front();
  if (unreachable_) {
    turn_away(cursor);
    return false;
  }
  auto step = request_gate_.look(front, thread_.draining, thread_.namespaces, thread_.context.x509);
  switch (step.kind) {
    case Kind::pass:
      if (step.begins) {
        deadline_.stop();
        thread_.cells[Counted::requests_relayed].add();
        if (step.changes_user) runner_.forget_rights();
        if (!step.past.empty()) runner_.note_past(step.past);
        forwarded(step.header, front.first(step.bytes));
      }
      if (request_gate_.passed(step)) deadline_.stop();
      cursor.pass(step.bytes);
      return true;
    case Kind::collect:
      deadline_.stop();
      if (!write_run(requests_, cursor)) return false;
      cursor.at += step.bytes;
      begin_exchange(std::get<rewrite::Request>(std::move(step.decision)), front.first(step.bytes));
      return true;
    case Kind::need:
      requests_.need(step.bytes);
      return false;
    case Kind::wait:
      queue_for_room();
      return false;
    case Kind::late:
      if (!write_run(requests_, cursor)) return false;
      if (!refuse_late(front.first(std::min(step.bytes, front.size())), step.bytes)) return false;
      cursor.at += step.bytes;
      return true;
    case Kind::reject:
      break;
  }
  protocol_error(step.fault);
  return false;
}

/// Answers the first request of a client whose server cannot be reached, and closes.
void ConnectionPair::turn_away(Cursor& cursor) {
  using Kind = unreachable::Answer::Kind;
  const auto id = static_cast<std::int32_t>(thread_.workspace.next_request_id++);
  const auto answer = unreachable::answer(cursor.front(), *unreachable_, id);
  if (answer.kind == Kind::need_more) return requests_.need(answer.bytes);
  if (answer.kind == Kind::close) return close();
  thread_.cells[Counted::requests_refused].add();
  requests_ended_ = true;
  cursor.at = cursor.input.size();
  reply(answer.reply.view());
  if (!closed_) end_after_replies();
}

void ConnectionPair::begin_exchange(rewrite::Request&& request, Bytes message) {
  requests_.expect(message.size());
  runner_.begin(std::move(request), message, requests_.buffer_of(message),
                request_gate_.take_share());
}

void ConnectionPair::queue_for_room() {
  request_gate_.queue([&thread = thread_, id = id_](Budget::Share share) {
    Messenger(thread, id).deliver([given = std::move(share)](ConnectionPair& pair) mutable {
      const Self self(&pair);
      pair.request_gate_.admitted(std::move(given));
      pair.guarded([&] { pair.requests_.resume(); });
    });
  });
}

void ConnectionPair::forwarded(const wire::MsgHeader& header, Bytes request) {
  request_gate_.forwarded();
  if (!wire::expects_reply(header, request)) return;
  wire::ReplyLedger& ledger = reply_gate_.ledger();
  ledger.forwarded(header.request_id);
  if (wire::is_legacy_exhaust(header, request)) ledger.permit_unrequested();
}

bool ConnectionPair::send(const wire::PatchedMessage& message, Bytes original) {
  thread_.cells[Counted::bytes_to_servers].add(message.size());
  return requests_.write(message, original);
}

void ConnectionPair::send(Bytes message) {
  thread_.cells[Counted::bytes_to_servers].add(message.size());
  requests_.write(message);
}

void ConnectionPair::start_timer(std::chrono::nanoseconds delay, std::uint64_t question) {
  timer_.start(delay, [self = Self(this), question] {
    self->guarded([&] { self->runner_.elapsed(question); });
  });
}

ids::Ticket ConnectionPair::ask(const rewrite::action::AskStore& need, std::uint64_t question) {
  return need.strategy->ask(need.count, std::make_unique<StoreAnswer>(*this, question));
}

// ---- replies ---------------------------------------------------------------------------------

bool ConnectionPair::take_reply(Cursor& cursor) {
  using Kind = ReplyGate::Step::Kind;
  const Bytes front = cursor.front();
  const auto step = reply_gate_.look(front, awaited(), requests_ended_);
  switch (step.kind) {
    case Kind::pass:
      cursor.pass(step.bytes);
      return reply_passed(reply_gate_.passed(step), cursor);
    case Kind::exchange:
      if (!write_run(replies_, cursor)) return false;
      cursor.at += step.bytes;
      reply_gate_.ledger().answered();
      runner_.reply(front.first(step.bytes));
      return true;
    case Kind::need:
      if (step.bytes > kUnbudgetedReply) runner_.collects_reply(step.bytes);
      replies_.need(step.bytes);
      return false;
    case Kind::over:
      end_after_replies();
      return false;
    case Kind::reject:
      break;
  }
  protocol_error({"bad_reply", step.fault});
  return false;
}

bool ConnectionPair::reply_passed(ReplyGate::Ended ended, Cursor& cursor) {
  if (ended == ReplyGate::Ended::nothing) return true;
  if (ended == ReplyGate::Ended::reply) {
    if (!thread_.draining) return true;
    // The server could stream replies without end.
    write_run(replies_, cursor);
    if (!closed_) end_after_replies();
    return false;
  }
  // If an exchange, a local reply or a request that has arrived waits for the end of a reply, that
  // goes out at once; otherwise all replies of one read go out together.
  if (runner_.is_busy() || !requests_.held().empty()) write_run(replies_, cursor);
  if (closed_) return false;
  reply_gate_.ledger().answered();
  if (reply_gate_.ledger().outstanding() > 0) return true;
  runner_.deliver_local_reply();
  requests_.resume();
  return true;
}

/// Reads no more replies, and closes once those before are written.
void ConnectionPair::end_after_replies() {
  replies_.end();
  if (!replies_.unsent()) close();
}

ReplyGate::Exchange ConnectionPair::awaited() const {
  return {.awaits_reply = runner_.awaits_reply(), .sent_whole = !requests_.unsent()};
}

void ConnectionPair::relay_reply(Bytes bytes) {
  thread_.cells[Counted::bytes_to_clients].add(bytes.size());
  replies_.write(bytes);
}

void ConnectionPair::reply(Bytes message) {
  relay_reply(message);
  if (closed_ || !replies_.unsent() || message.size() <= kUnbudgetedReply) return;
  unsent_share_ = thread_.shared.budget.overdraw(message.size());
}

bool ConnectionPair::has_answered_all() const {
  return reply_gate_.ledger().outstanding() == 0 && !replies_.unsent();
}

void ConnectionPair::reject_reply() {
  protocol_error({"bad_reply", "the proxy cannot parse a server's reply"});
}

void ConnectionPair::learn(const rewrite::HelloReply& said) {
  const auto messenger = std::make_shared<Messenger>(thread_, id_);
  thread_.shared.observer->learn(server_->id, said, [messenger] {
    messenger->deliver([](ConnectionPair& pair) { pair.learned(); });
  });
}

void ConnectionPair::learned() {
  const Self self(this);
  guarded([&] {
    runner_.learned();
    if (replies_.ended() && !replies_.unsent()) return close();
    replies_.resume();
  });
}

}  // namespace idproxy::net
