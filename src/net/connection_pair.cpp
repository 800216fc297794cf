#include "connection_pair.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "idproxy/observability/log.hpp"
#include "idproxy/rewrite/classify.hpp"
#include "upstreams.hpp"

namespace idproxy::net {
namespace {

// One direction of one connection is read at most this often before the others have a turn.
constexpr int kReadsPerTurn = 4;
// While a message is collected, reads ask for at least and at most this much.
constexpr std::size_t kSmallestRead = std::size_t{16} * 1024;
constexpr std::size_t kFirstGrowth = std::size_t{64} * 1024;

}  // namespace

/// Until an exchange may go on.
struct ConnectionPair::Waiting {
  explicit Waiting(asio::io_context& io) : timer(io) {}
  Timer timer;
  std::uint64_t question = 0;  // to the id store; 0: none
  ids::Ticket ticket;
};

/// Brings the id store's answer to the pair's thread, whose loop does not end before.
class ConnectionPair::StoreAnswer final : public ids::Asker {
 public:
  StoreAnswer(std::shared_ptr<ConnectionPair> pair, std::uint64_t question)
      : loop_(pair->thread_.io.get_executor()), pair_(std::move(pair)), question_(question) {}

  void answered(ids::Result<ids::Grant> grant) override {
    asio::post(loop_.get_executor(), [pair = std::move(pair_), question = question_,
                                      answer = std::move(grant)]() mutable {
      pair->store_answered(question, std::move(answer));
    });
  }

 private:
  asio::executor_work_guard<asio::io_context::executor_type> loop_;
  std::shared_ptr<ConnectionPair> pair_;  // which outlives what it waits for
  std::uint64_t question_;
};

void ConnectionPair::start(IoThread& thread, Socket downstream,
                           std::shared_ptr<Upstream> upstream) {
  std::shared_ptr<ConnectionPair> pair;
  try {
    pair = std::make_shared<ConnectionPair>(thread, std::move(downstream), std::move(upstream));
  } catch (const std::exception&) {
    --thread.shared.open_connections;  // of which the listener counted it
    return;
  }
  pair->guarded([&] { pair->connect(); });
}

ConnectionPair::ConnectionPair(IoThread& thread, Socket downstream,
                               std::shared_ptr<Upstream> upstream)
    : thread_(thread),
      server_(std::move(upstream)),
      downstream_(std::move(downstream)),
      upstream_(thread.io),
      id_(++thread.shared.last_connection_id) {
  thread_.pairs.insert(this);
  ++server_->connections;
}

ConnectionPair::~ConnectionPair() {
  close();
}

void ConnectionPair::close() {
  if (closed_) return;
  closed_ = true;
  const auto connector = std::exchange(connector_, nullptr);
  error_code ignored;
  downstream_.close(ignored);
  upstream_.close(ignored);
  waiting_.reset();
  thread_.pairs.erase(this);
  --thread_.shared.open_connections;
  --server_->connections;
  if (connector) connector->cancel();  // last: it may hold the last reference to this pair
}

// ---- the server connection -------------------------------------------------------------------

void ConnectionPair::connect() {
  connector_ = Connector::start(thread_, server_,
                                [self = shared_from_this()](Socket* socket, std::string_view) {
                                  self->connector_ = nullptr;
                                  if (self->closed_) return;
                                  if (socket == nullptr) return self->close();
                                  self->guarded([&] { self->connected(std::move(*socket)); });
                                });
}

void ConnectionPair::connected(Socket socket) {
  upstream_ = std::move(socket);
  log::event(log::Level::debug, "connection_opened", "client connected",
             {{"connection", id_}, {"server", server_->name}});
  wait_readable(downstream_, requests_);
  wait_readable(upstream_, replies_);
}

/// Runs a handler's work. What it throws, memory that cannot be had above all, ends this pair and
/// no other.
template <class Work>
void ConnectionPair::guarded(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    close();  // first, since it gives memory back
    log::event(log::Level::error, "connection_failed", "an error ended one client's connection",
               {{"connection", id_}, {"reason", error.what()}});
  }
}

// ---- both directions -------------------------------------------------------------------------

bool ConnectionPair::blocked(const Direction& direction) const {
  if (closed_ || !direction.out.empty()) return true;
  return &direction == &requests_ ? exchange_ || local_reply_ : learning_;
}

void ConnectionPair::wait_readable(Socket& source, Direction& direction) {
  if (direction.waiting || direction.early_size > 0 || closed_) return;
  direction.waiting = true;
  const auto readable = [self = shared_from_this(), &source, &direction](error_code error,
                                                                         std::size_t received = 0) {
    direction.waiting = false;
    if (self->closed_) return;
    if (error == asio::error::eof) return self->source_ended(direction);
    if (error) return self->source_broke(direction);
    direction.early_size = received;
    self->guarded([&] { self->on_readable(source, direction); });
  };
  if (direction.bulk) return source.async_wait(Socket::wait_read, readable);
  source.async_receive(asio::buffer(direction.early), readable);
}

void ConnectionPair::on_readable(Socket& source, Direction& direction) {
  if (!blocked(direction)) return read(source, direction);
  // What was received early waits for resume().
  if (&direction == &replies_) return;
  if (direction.early_size == 0 && direction.out.empty()) watch_for_close(direction);
}

/// While a client's next request has to wait, so that its leaving is noticed at once.
void ConnectionPair::watch_for_close(Direction& direction) {
  std::uint8_t byte;
  const ssize_t n = ::recv(downstream_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n > 0) return;  // a pipelined request: resume() reads it
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return wait_readable(downstream_, direction);
  close();
}

void ConnectionPair::read(Socket& source, Direction& direction) {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    std::size_t room = 0;
    const ssize_t n = read_some(source, direction, room);
    direction.bulk = n > static_cast<ssize_t>(direction.early.size());
    if (n == 0) return source_ended(direction);
    if (n < 0) {
      if (errno != EAGAIN && errno != EINTR) return source_broke(direction);
      break;
    }
    if (direction.held.empty()) {
      process(direction, {thread_.read_buffer.get(), static_cast<std::size_t>(n)});
    } else if (direction.held.size() >= direction.wanted) {
      process(direction, direction.held.view());
    }
    if (blocked(direction)) break;
    if (static_cast<std::size_t>(n) < room) break;
  }
  // With unsent bytes, on_writable() goes on.
  if (direction.out.empty()) wait_readable(source, direction);
}

/// Into the thread's buffer, or behind what is held. `room` is how much was asked for.
ssize_t ConnectionPair::read_some(Socket& source, Direction& direction, std::size_t& room) {
  const int fd = source.native_handle();
  Buffer& held = direction.held;
  if (held.empty()) {
    room = IoThread::kReadSize;
    if (direction.early_size > 0) return read_early(source, direction);
    return ::recv(fd, thread_.read_buffer.get(), room, MSG_DONTWAIT);
  }
  if (direction.early_size > 0) {
    room = direction.early.size();
    const auto early = static_cast<ssize_t>(direction.early_size);
    hold_early(direction);
    return early;
  }
  // Grows with what has come, not with what is announced.
  const std::size_t size = held.size();
  const std::size_t missing = direction.wanted > size ? direction.wanted - size : 0;
  room = std::clamp(missing, kSmallestRead, std::max(size, kFirstGrowth));
  room = std::max(room, std::min(held.capacity() - size, IoThread::kReadSize));
  const ssize_t n = ::recv(fd, held.extend(room), room, MSG_DONTWAIT);
  held.truncate(size + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return n;
}

/// What was received early goes to the front of the thread's buffer; there is more to read only if
/// it filled its place.
ssize_t ConnectionPair::read_early(Socket& source, Direction& direction) {
  const std::size_t size = std::exchange(direction.early_size, 0);
  std::uint8_t* buffer = thread_.read_buffer.get();
  std::memcpy(buffer, direction.early.data(), size);
  if (size < direction.early.size()) return static_cast<ssize_t>(size);
  const ssize_t more =
      ::recv(source.native_handle(), buffer + size, IoThread::kReadSize - size, MSG_DONTWAIT);
  // An end or an error is met again by the next read.
  return static_cast<ssize_t>(size) + std::max<ssize_t>(more, 0);
}

void ConnectionPair::hold_early(Direction& direction) {
  if (direction.early_size == 0) return;
  if (direction.held.capacity() == 0) direction.held = thread_.take_buffer();
  direction.held.append(Bytes(direction.early).first(std::exchange(direction.early_size, 0)));
}

void ConnectionPair::source_ended(Direction& direction) {
  direction.source_ended = true;
  if (&direction == &requests_) {
    report_bypass();
  } else {
    thread_.shared.upstreams->lost(*server_);
  }
  // What was passed on before the end still gets there: on_writable() or learned() closes then.
  const bool learning = &direction == &replies_ && learning_;
  if (direction.out.empty() && !learning) close();
}

void ConnectionPair::source_broke(const Direction& direction) {
  if (&direction == &replies_) thread_.shared.upstreams->lost(*server_);
  close();
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
  Socket& sink = &direction == &requests_ ? upstream_ : downstream_;
  queued(direction, direction.out.send(sink.native_handle(), bytes));
}

void ConnectionPair::queued(Direction& direction, OutQueue::Status status) {
  if (status == OutQueue::Status::failed) return close();
  if (status == OutQueue::Status::blocked) {
    wait_writable(&direction == &requests_ ? upstream_ : downstream_, direction);
  }
}

void ConnectionPair::wait_writable(Socket& sink, Direction& direction) {
  if (direction.draining || closed_) return;
  direction.draining = true;
  sink.async_wait(Socket::wait_write,
                  [self = shared_from_this(), &sink, &direction](error_code error) {
                    direction.draining = false;
                    if (error || self->closed_) return;
                    self->guarded([&] { self->on_writable(sink, direction); });
                  });
}

void ConnectionPair::on_writable(Socket& sink, Direction& direction) {
  const OutQueue::Status status = direction.out.flush(sink.native_handle());
  if (status != OutQueue::Status::done) return queued(direction, status);
  if (direction.source_ended) return close();
  const bool written = &direction == &requests_ && exchange_ && !waiting_;
  if (written && !exchange_->awaits_reply()) exchange_ended();
  resume(direction);
  if (&direction == &replies_ && local_reply_) {
    deliver_local_reply();
    resume(requests_);
  }
}

/// Goes on after whatever blocked the direction is gone, first with what is held. Does not read:
/// the thread's buffer may be in use by the caller.
void ConnectionPair::resume(Direction& direction) {
  if (blocked(direction)) {
    // Blocked by an exchange: the source is watched for its end (watch_for_close).
    if (!closed_ && direction.out.empty()) wait_source(direction);
    return;
  }
  hold_early(direction);
  if (!direction.held.empty() && direction.held.size() >= direction.wanted) {
    process(direction, direction.held.view());
  }
  if (!closed_ && direction.out.empty()) wait_source(direction);
}

void ConnectionPair::wait_source(Direction& direction) {
  wait_readable(&direction == &requests_ ? downstream_ : upstream_, direction);
}

void ConnectionPair::protocol_error(std::string_view event, std::string_view what) {
  log::event(log::Level::warning, event, what, {{"connection", id_}, {"server", server_->name}});
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
    if (front.kind == wire::FrameReader::Kind::malformed) {
      protocol_error("bad_message_length",
                     "a client's message length is not between 16 and 48000000");
      break;
    }
    if (front.kind == wire::FrameReader::Kind::need_more) {
      requests_.wanted = wire::kHeaderSize;
      break;
    }
    if (front.kind == wire::FrameReader::Kind::begin) {
      const auto length = static_cast<std::size_t>(front.header.message_length);
      const Bytes message = rest.first(std::min(length, rest.size()));
      const auto decision = rewrite::classify(front.header, message, thread_.workspace.namespaces);
      using Kind = rewrite::Decision::Kind;
      if (decision.kind == Kind::close) {
        protocol_error("compressed_message",
                       "a client sent OP_COMPRESSED, which was not negotiated");
        break;
      }
      if (decision.kind == Kind::need_more ||
          (decision.kind == Kind::collect && message.size() < length)) {
        requests_.wanted = decision.kind == Kind::collect ? length : decision.bytes;
        break;
      }
      if (decision.kind == Kind::collect) {
        pass_on();
        if (blocked(requests_)) break;
        exchange(message);
        at += length;
        continue;
      }
      forwarded(front.header, message);
      requests_.frames.pass(front.header);
      taken = message.size();
    } else {
      taken = front.bytes;
    }
    requests_.frames.took(taken);
    pending = {pending.empty() ? rest.data() : pending.data(), pending.size() + taken};
    at += taken;
  }
  if (!closed_) pass_on();
  return at;
}

void ConnectionPair::forwarded(const wire::MsgHeader& header, Bytes front) {
  if (++requests_seen_ == 2) thread_.shared.last_stayed = std::chrono::steady_clock::now();
  if (!rewrite::expects_reply(header, front)) return;
  expect_reply_to(header.request_id);
  legacy_exhaust_ = legacy_exhaust_ || rewrite::is_legacy_exhaust(header, front);
}

void ConnectionPair::exchange(Bytes message) {
  rewrite::Workspace& workspace = thread_.workspace;
  Buffer& held = requests_.held;
  const bool owns = held.data() == message.data() && held.size() == message.size();
  exchange_ = std::make_unique<rewrite::Exchange>(server_->id);
  begin_exchange(exchange_->request(message, owns ? &held : nullptr, workspace), message);
}

/// It is decided what becomes of the exchange's request, which is `message`.
void ConnectionPair::begin_exchange(rewrite::Action action, Bytes message) {
  if (action == rewrite::Action::ask) return ask_store();
  report(*exchange_);
  if (action == rewrite::Action::reply) return answer_here();
  forwarded(wire::read_header(message), message);
  if (action == rewrite::Action::send) return send_exchange();
  if (!exchange_->awaits_reply()) exchange_ended();
  relay(requests_, message);
}

void ConnectionPair::answer_here() {
  ++thread_.shared.counters.commands_failed;
  const Bytes reply = thread_.workspace.reply.view();
  if (!reply.empty()) local_reply_.emplace().append(reply);  // w:0: nobody waits for an answer
  exchange_ended();
  deliver_local_reply();
}

/// Until store_answered().
void ConnectionPair::ask_store() {
  const rewrite::Need need = exchange_->need();
  const std::uint64_t question = ++questions_;
  waiting_ = std::make_unique<Waiting>(thread_.io);
  waiting_->question = question;
  waiting_->timer.expires_after(need.patience);
  waiting_->timer.async_wait([self = shared_from_this(), question](error_code error) {
    if (error) return;
    self->store_answered(
        question, ids::Error{ids::Errc::unavailable, "the id store has not answered in time"});
  });
  waiting_->ticket =
      need.strategy->ask(need.count, std::make_unique<StoreAnswer>(shared_from_this(), question));
}

void ConnectionPair::store_answered(std::uint64_t question, ids::Result<ids::Grant> grant) {
  // An answer that comes too late goes back to the store with the grant.
  if (closed_ || !waiting_ || waiting_->question != question) return;
  waiting_.reset();
  guarded([&] {
    const bool sent = exchange_->awaits_reply();
    const auto action = exchange_->answered(std::move(grant), thread_.workspace);
    if (sent) return act(action, {});
    begin_exchange(action, exchange_->original());
    resume(requests_);
  });
}

void ConnectionPair::send_exchange() {
  const auto status =
      requests_.out.send(upstream_.native_handle(), exchange_->message(), exchange_->original());
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
  thread_.give_back(exchange_->release(thread_.workspace));
  thread_.workspace.trim();
  exchange_.reset();
  waiting_.reset();
}

/// What was answered here goes out when everything before it has been answered.
void ConnectionPair::deliver_local_reply() {
  if (!local_reply_ || outstanding_ > 0 || !replies_.out.empty()) return;
  const Buffer reply = std::move(*local_reply_);
  local_reply_.reset();
  relay(replies_, reply.view());
}

void ConnectionPair::report(const rewrite::Exchange& exchange) {
  Shared& shared = thread_.shared;
  if (exchange.assigned() > 0) {
    ++shared.counters.inserts_assigned;
    shared.counters.documents_refused += exchange.refused();
  }
  const rewrite::Assignment* rule = exchange.driver_made();
  if (rule == nullptr || shared.driver_ids_reported[rule->rule_index].exchange(true)) return;
  log::event(
      log::Level::warning, "driver_made_ids",
      "all documents of an insert brought an _id that their driver made, so the rule had "
      "nothing to assign: make the driver leave _id out (docs/drivers.md), or set "
      "assign: driver, and then the insertedId that the driver reports is not the stored one",
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
        replies_.wanted = needed;
        break;
      }
      const auto length = static_cast<std::size_t>(front.header.message_length);
      const Bytes message = rest.first(std::min(length, rest.size()));
      if (const auto fault = fault_of(front.header); !fault.empty()) {
        protocol_error("bad_reply", fault);
        break;
      }
      if (answers_exchange()) {
        pass_on();
        if (blocked(replies_)) break;
        at += length;
        --outstanding_;
        if (exchange_->is_hello()) {
          thread_.workspace.members = thread_.shared.upstreams->members();
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
    if (!ended || !reply_ends_) continue;
    // Only an exchange or a local reply waits for the end of a reply; other replies of one read
    // go out together.
    if (exchange_ || local_reply_) pass_on();
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
  return exchange_ && exchange_->awaits_reply() && outstanding_ == 1;
}

/// A server answers in the order of the requests.
void ConnectionPair::expect_reply_to(std::int32_t request_id) {
  if (outstanding_++ > 0) earlier_.push_back(newest_);
  newest_ = request_id;
}

std::int32_t& ConnectionPair::next_response_to() {
  return earlier_at_ < earlier_.size() ? earlier_[earlier_at_] : newest_;
}

/// Why the reply cannot be what the client is owed, or "".
std::string_view ConnectionPair::fault_of(const wire::MsgHeader& header) {
  if (legacy_exhaust_ && !answers_exchange()) return {};
  if (outstanding_ == 0) return "the server sent a reply that nobody had asked for";
  if (header.response_to != next_response_to()) {
    return "a server's reply belongs to no request of this connection";
  }
  if (answers_exchange() && !requests_.out.empty()) {
    return "the server replied to a request that had not been sent whole";
  }
  return {};
}

void ConnectionPair::begin_reply(const wire::MsgHeader& header, Bytes front) {
  const bool msg = header.op_code == wire::OpCode::msg && front.size() >= wire::kSectionsOffset;
  const bool more =
      msg && (load_u32(front.data() + wire::kFlagsOffset) & wire::flag::kMoreToCome) != 0;
  reply_ends_ = !more;
  // The next reply of a stream names the one before it (OP_MSG specification, "exhaustAllowed").
  if (more && outstanding_ > 0) next_response_to() = header.request_id;
}

/// `reply`: the message that led to the action, if one did.
void ConnectionPair::act(rewrite::Action action, Bytes reply) {
  using rewrite::Action;
  if (action == Action::close) {
    return protocol_error("bad_reply", "a server's reply cannot be understood");
  }
  if (action == Action::wait) return wait_to_resume(exchange_->delay());
  if (action == Action::ask) return ask_store();
  if (action == Action::learn) return learn();
  if (action == Action::send) {
    expect_reply_to(exchange_->request_id());
    return send_exchange();
  }
  relay(replies_, action == Action::relay ? reply : thread_.workspace.reply.view());
  if (closed_) return;
  if (exchange_->is_hello()) note_member();
  if (exchange_->streams()) return expect_reply_to(exchange_->request_id());
  exchange_ended();
  resume(requests_);
}

/// Until learned().
void ConnectionPair::learn() {
  learning_ = true;
  // The loop of this thread does not end before the answer has come.
  const asio::executor_work_guard<asio::io_context::executor_type> loop(thread_.io.get_executor());
  thread_.shared.upstreams->learn(
      server_->id, exchange_->said(), [self = shared_from_this(), loop] {
        asio::post(loop.get_executor(), [pair = self] { pair->learned(); });
      });
}

void ConnectionPair::learned() {
  if (closed_) return;
  guarded([&] {
    learning_ = false;
    thread_.workspace.members = thread_.shared.upstreams->members();
    act(exchange_->learned(thread_.workspace), exchange_->original());
    if (replies_.source_ended && replies_.out.empty()) return close();
    resume(replies_);
  });
}

void ConnectionPair::wait_to_resume(std::chrono::nanoseconds delay) {
  waiting_ = std::make_unique<Waiting>(thread_.io);
  waiting_->timer.expires_after(delay);
  waiting_->timer.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->closed_) return;
    self->guarded([&] { self->act(self->exchange_->resume(self->thread_.workspace), {}); });
  });
}

void ConnectionPair::reply_ended() {
  if (earlier_at_ < earlier_.size()) ++earlier_at_;
  if (earlier_at_ * 2 > earlier_.size()) {
    earlier_.erase(earlier_.begin(), earlier_.begin() + static_cast<std::ptrdiff_t>(earlier_at_));
    earlier_at_ = 0;
  }
  if (outstanding_ > 0) --outstanding_;
  if (outstanding_ > 0) return;
  if (local_reply_) deliver_local_reply();
  resume(requests_);
}

/// A reply to hello went to the client as the server sent it.
void ConnectionPair::note_member() {
  if (thread_.workspace.maps_hello) return;
  const rewrite::Members& members = *thread_.workspace.members;
  const rewrite::Server* server = members.find(server_->id);
  if (server == nullptr || server->said.me.empty()) return;
  if (members.listener_of(server->said.me) == server->said.me) return;
  set_member_seen_ = std::chrono::steady_clock::now();
}

/// A driver without directConnection=true asks one hello, follows the member's host list, which
/// does not name us, and leaves at once: its writes pass us by. A driver that stays opens
/// connections too that carry one hello only, but just after another one of it has sent its second
/// request.
void ConnectionPair::report_bypass() {
  constexpr std::chrono::seconds kAtOnce{1};
  if (requests_seen_ != 1 || !set_member_seen_) return;
  if (std::chrono::steady_clock::now() - *set_member_seen_ > kAtOnce) return;
  if (thread_.shared.last_stayed.load() > opened_ - kAtOnce) return;
  if (thread_.shared.bypass_reported.exchange(true)) return;
  log::event(
      log::Level::warning, "replica_set_bypass",
      "a client asked the replica-set member behind this listener who its members are, and "
      "left to talk to them directly: IT GETS NO IDS. Put directConnection=true into its "
      "connection string",
      {{"connection", id_}, {"listener", server_->route.listen.text()}, {"server", server_->name}});
}

}  // namespace idproxy::net
