#include "net/connection_pair.hpp"

#include <cstdio>
#include <utility>

#include "idproxy/rewrite/reply.hpp"
#include "net/sockets.hpp"

namespace idproxy::net {
namespace {

// How much to read at once from an idle client while there is little room.
constexpr std::size_t kLittleRead = std::size_t{4} * 1024;
// The same, and what is held, of one without the login that its server wants.
constexpr std::size_t kReadWithoutLogin = std::size_t{64} * 1024;

}  // namespace

void ConnectionPair::start(IoThread& thread, FileDescriptor downstream,
                           std::shared_ptr<Upstream> upstream) {
  ConnectionPair* pair = nullptr;
  try {
    const auto opened =
        std::make_shared<ConnectionPair>(thread, std::move(downstream), std::move(upstream));
    thread.pairs.emplace(opened->id_, opened);
    pair = opened.get();
  } catch (const std::exception&) {
    thread.shared.count_closed();  // the listener counted it
    return;
  }
  ++pair->server_->connections;
  pair->guarded([&] { pair->begin(); });
}

std::vector<ConnectionPair*> ConnectionPair::all_of(const IoThread& thread) {
  std::vector<ConnectionPair*> all;
  all.reserve(thread.pairs.size());
  for (const auto& [id, pair] : thread.pairs) all.push_back(pair.get());
  return all;
}

ConnectionPair::ConnectionPair(IoThread& thread, FileDescriptor downstream,
                               std::shared_ptr<Upstream> upstream)
    : thread_(thread),
      server_(std::move(upstream)),
      downstream_(thread.loop, thread.tls),
      upstream_(thread.loop, thread.tls),
      requests_(*this),
      replies_(*this),
      request_gate_(thread.shared.budget, thread.inflation),
      reply_gate_(thread.inflation),
      load_(server_->loads[thread.index]),
      deadline_(*this),
      stall_(*this),
      opened_(thread.now()),
      id_(++thread.shared.last_connection_id),
      timer_(thread.loop) {
  memory_.connection = id_;
  auto engine = thread_.client_tls ? tls::Engine::accept(thread_.client_tls) : nullptr;
  downstream_.open(std::move(downstream), std::move(engine));
  handshaking_ = thread_.client_tls != nullptr;
}

ClientStatistics ConnectionPair::describe() const {
  const auto now = thread_.shared.clock.monotonic();
  const auto transactions = thread_.shared.transactions.of(id_, transactions_);
  const Rates rates = counts_.lately.rates(now);
  ClientStatistics client{
      .id = id_,
      .address = peer_name(downstream_.socket()),
      .server = server_->name,
      .age = now - opened_,
      .requests = counts_.requests,
      .documents = counts_.documents,
      .values = counts_.values + (exchange_ ? exchange_->facts().values_sent : 0),
      .requests_per_second = rates.requests,
      .documents_per_second = rates.documents,
      .transactions = transactions.count,
      .bytes_received = counts_.bytes_received,
      .bytes_sent = counts_.bytes_sent,
      .memory = memory(),
      .tls = downstream_.is_secure(),
      .port = own_port(upstream_.socket())};
  if (counts_.compressor != wire::Compressor::none) {
    client.compressor = wire::name_of(counts_.compressor);
  }
  if (const auto since = waiting_.waits_since()) client.waits = now - *since;
  if (transactions.since) client.oldest_transaction = now - *transactions.since;
  if (memory_.client != nullptr) {
    client.application = memory_.client->application;
    client.driver = memory_.client->driver;
    client.user = memory_.client->user;
  }
  return client;
}

ApplicationStatistics ConnectionPair::share(std::chrono::nanoseconds now) const {
  const auto transactions = thread_.shared.transactions.of(id_, transactions_);
  const Rates rates = counts_.lately.rates(now);
  ApplicationStatistics its{.connections = 1,
                            .requests_per_second = rates.requests,
                            .documents_per_second = rates.documents,
                            .transactions = transactions.count,
                            .memory = memory()};
  if (const auto since = waiting_.waits_since()) its.waits = now - *since;
  if (transactions.since) its.oldest_transaction = now - *transactions.since;
  return its;
}

/// With what the budget counts for it where that is more.
std::uint64_t ConnectionPair::memory() const {
  std::uint64_t bytes = std::max<std::uint64_t>(request_gate_.room(), requests_.held().size()) +
                        replies_.held().size() + unsent_share_.bytes();
  if (exchange_) bytes += exchange_->share.bytes() + exchange_->reply_share.bytes();
  if (local_reply_) bytes += local_reply_->size();
  return bytes;
}

void ConnectionPair::close() {
  if (closed_) return;
  const auto place = thread_.pairs.find(id_);
  std::function<void()> owner = [pair = place->second] {};  // first: there may be no memory for it
  closed_ = true;
  log_closed();
  load_.ended(waiting_);
  if (connector_) std::exchange(connector_, nullptr)->cancel();
  requests_.close();
  replies_.close();
  downstream_.close();
  upstream_.close();
  deadline_.stop();
  stall_.stop();
  timer_.cancel();
  stop_waiting();
  local_reply_.reset();
  // The exchange itself may be what is closing the pair.
  if (exchange_) exchange_->share.reset();
  request_gate_.leave();
  unsent_share_.reset();
  --server_->connections;
  thread_.shared.transactions.left(id_, transactions_);
  thread_.ended.add(memory_.client ? memory_.client->application : std::string_view(),
                    counts_.lately, thread_.shared.clock.monotonic());
  thread_.shared.count_closed();
  thread_.loop.destroy_later(std::move(owner));  // after the waits, which the streams have ended
  thread_.pairs.erase(place);
}

/// Before the descriptors are closed: afterwards the kernel does not know the addresses.
void ConnectionPair::log_closed() const noexcept {
  if (!log::enabled(log::Level::debug)) return;
  try {
    const ClientStatistics client = describe();
    log::event(log::Level::debug, "connection_closed", "client disconnected",
               {{"connection", client.id},
                {"client", client.address},
                {"application", client.application},
                {"driver", client.driver},
                {"user", client.user},
                {"server", client.server},
                {"seconds", std::chrono::floor<std::chrono::seconds>(client.age).count()},
                {"requests", client.requests},
                {"values", client.values},
                {"bytes_received", client.bytes_received},
                {"bytes_sent", client.bytes_sent}});
  } catch (const std::exception& error) {  // out of memory: the connection is closed all the same
    (void)std::fprintf(stderr, "mongo-idproxy: a line of the log is missing: %s\n", error.what());
  }
}

void ConnectionPair::failed(const std::exception& error) {
  close();  // first, because it frees memory that the log may need
  log::event(log::Level::error, "connection_failed", "an error ended one client's connection",
             {{"connection", id_}, {"reason", error.what()}});
}

void ConnectionPair::protocol_error(const ProtocolFault& fault) {
  thread_.inflation.trim();
  thread_.cells[Counted::closed_protocol].add();
  log::event(log::Level::warning, fault.event, fault.message,
             {{"connection", id_},
              {"client", peer_name(downstream_.socket())},
              {"server", server_->name}});
  close();
}

// ---- opening ---------------------------------------------------------------------------------

void ConnectionPair::begin() {
  if (thread_.draining) return close();
  if (!handshaking_) return greeted();
  thread_.tls_handshake.start(deadline_, expired<&ConnectionPair::made_no_handshake>);
  // Read the name now: after a disconnect the kernel does not know it any more.
  std::string client = peer_name(downstream_.socket());
  downstream_.handshake([this, client = std::move(client)](std::string_view fault) {
    guarded([&] {
      if (fault.empty()) return greeted();
      // Health checks connect and close at once.
      if (fault != Stream::kClosedAtOnce) return tls_failed(client, fault);
      close();
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
  auto connector = Connector::start(thread_, server_, downstream_.socket(),
                                    [this](Stream* stream, const Connector::Failure& failure) {
                                      connector_ = nullptr;
                                      guarded([&] {
                                        stream == nullptr ? not_connected(failure)
                                                          : connected(std::move(*stream));
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
                {"server", server_->name},
                {"port", own_port(upstream_.socket())}});
  }
  replies_.wait_source();
  requests_.resume();
}

/// The client's first request gets the reason as its answer, and ends the connection.
void ConnectionPair::not_connected(const Connector::Failure& failure) {
  thread_.cells[failure.gave_up ? Counted::closed_descriptors : Counted::closed_connect].add();
  if (failure.gave_up) return close();  // others need the descriptor
  unreachable_ =
      std::make_unique<const std::string>(unreachable_text(server_->name, failure.reason));
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

// ---- time limits -----------------------------------------------------------------------------

void ConnectionPair::timed_out(Counted as, log::Level level, std::string_view event,
                               std::string_view message) {
  thread_.cells[as].add();
  log::event(level, event, message,
             {{"connection", id_}, {"client", peer_name(downstream_.socket())}});
  close();
}

void ConnectionPair::made_no_handshake() {
  timed_out(Counted::closed_tls_handshake, log::Level::warning, "tls_handshake_timeout",
            "a client has not finished its TLS handshake within limits.tls_handshake");
}

/// Not worth a warning: drivers and health checks open connections in advance.
void ConnectionPair::sent_nothing() {
  timed_out(Counted::closed_first_byte, log::Level::debug, "first_byte_timeout",
            "a client has sent nothing within limits.first_byte");
}

void ConnectionPair::sent_half_a_message() {
  timed_out(Counted::closed_message, log::Level::warning, "message_timeout",
            "a client has not finished a message within limits.message");
}

/// Not worth a warning: the client may have gone, which looks the same until something is sent.
void ConnectionPair::left_unanswered() {
  timed_out(Counted::closed_message, log::Level::debug, "answer_timeout",
            "for limits.message, a client that sends no more got no answer or took none");
}

/// Limits the time for the rest of a message that the client has begun, while only the client
/// delays it. Once the client has ended its direction: the time in which nothing happens.
void ConnectionPair::watch_message() {
  if (closed_ || silent_) return;
  if (requests_.ended()) {
    return thread_.message.start(deadline_, expired<&ConnectionPair::left_unanswered>);
  }
  const bool begun = request_gate_.inside() || !requests_.held().empty();
  if (!begun || requests_.blocked()) return deadline_.stop();
  if (!deadline_.runs())
    thread_.message.start(deadline_, expired<&ConnectionPair::sent_half_a_message>);
}

/// Has a look at the client when it has sent nothing for a while in the middle of a message that
/// has room in the budget, and is not waiting for more of that.
void ConnectionPair::watch_memory() {
  if (closed_ || request_gate_.room() == 0 || request_gate_.queued()) return stall_.stop();
  if (!stall_.runs()) thread_.stalled.start(stall_, expired<&ConnectionPair::has_not_moved>);
}

/// It gives way if others wait, unless the proxy has not read what it sent.
void ConnectionPair::has_not_moved() {
  const bool could_move = requests_.blocked() || downstream_.has_received() ||
                          downstream_.peek() == Stream::Peeked::bytes;
  if (could_move || thread_.shared.budget.waiting() == 0) return watch_memory();
  thread_.cells[Counted::closed_memory].add();
  const ClientStatistics client = describe();
  log::event(log::Level::warning, "gave_way",
             "a client has stopped in the middle of a message, and others wait for the memory that "
             "it holds: its connection ends",
             {{"connection", client.id},
              {"client", client.address},
              {"application", client.application},
              {"user", client.user},
              {"server", client.server},
              {"memory_bytes", client.memory}});
  close();
}

// ---- draining --------------------------------------------------------------------------------

bool ConnectionPair::tell_monitor() {
  guarded([&] { answer_hello_late(); });
  return requests_ended_;
}

void ConnectionPair::drain() {
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
          .busy = is_busy() || learning_,
          .unsent = requests_.unsent() || replies_.unsent(),
          .inside_message = request_gate_.inside() || !requests_.held().empty(),
          .ended = requests_ended_ || requests_.ended(),
          .seen_empty = requests_.seen_empty(),
          .outstanding = reply_gate_.ledger().outstanding()};
}

/// An awaitable or streaming hello would keep the connection open without a limit.
void ConnectionPair::answer_hello_late() {
  if (closed_ || reply_gate_.ledger().outstanding() != 1) return;
  // One in OP_QUERY has a reply of another form.
  if (!exchange_ || !exchange_->is_hello() || exchange_->about.header.op_code != wire::OpCode::msg)
    return;
  if (!exchange_->awaits_reply() || learning_) return;
  if (requests_.unsent()) return close();  // the server has not even got all of it
  Buffer& answer = thread_.workspace.reply;
  answer.clear();
  rewrite::append_shutdown_reply_to(exchange_->request_id(),
                                    static_cast<std::int32_t>(thread_.workspace.next_request_id++),
                                    answer);
  thread_.cells[Counted::requests_shutdown].add();
  reply_gate_.ledger().answered();
  load_.ended(waiting_);
  requests_ended_ = true;
  reply(thread_.inflation.deflate(exchange_->about.compressor, answer.view()));
  if (!closed_) end_exchange();
}

// ---- from the client to the server -----------------------------------------------------------

bool ConnectionPair::Requests::holds_up() const {
  return pair_.is_busy() || pair_.connector_ || pair_.request_gate_.queued() || pair_.is_owed_ ||
         pair_.requests_ended_;
}

std::size_t ConnectionPair::Requests::read_size() const {
  // While many messages wait for room, or this one for earlier replies, their beginnings are held:
  // keep those small.
  const bool waits = pair_.thread_.shared.budget.is_scarce() || pair_.owes_replies();
  const bool little = !pair_.request_gate_.inside() && waits;
  if (little) return kLittleRead;
  return pair_.needs_login() ? kReadWithoutLogin : BufferPool::kReadSize;
}

void ConnectionPair::Requests::heard() {
  if (std::exchange(pair_.silent_, false)) pair_.deadline_.stop();
}

void ConnectionPair::Requests::received(std::size_t bytes) {
  pair_.thread_.cells[Counted::bytes_from_clients].add(bytes);
  pair_.counts_.bytes_received += bytes;
  if (bytes == 0) return;
  heard();
  pair_.stall_.stop();  // it moves: watch_memory() begins again
}

void ConnectionPair::Requests::writing(std::size_t bytes) {
  pair_.thread_.cells[Counted::bytes_to_servers].add(bytes);
  pair_.load_.bytes_sent.add(bytes);
}

void ConnectionPair::Requests::source_broke() {
  const Stream& client = pair_.downstream_;
  if (client.fault().empty()) return pair_.close();
  pair_.tls_failed(peer_name(client.socket()), client.fault());
}

void ConnectionPair::Requests::written() {
  if (pair_.exchange_ && pair_.waits_ == Waits::for_nothing) pair_.sent();
  resume();
}

/// Replies or a TLS alert that the server sent before the connection broke can still be read, and
/// then its end.
void ConnectionPair::Requests::write_failed() {
  pair_.requests_ended_ = true;
  pair_.upstream_.shut_down();
  pair_.replies_.wait_source();
}

// ---- the client's end ------------------------------------------------------------------------

/// True if a whole request has arrived and is not taken yet.
bool ConnectionPair::holds_request() const {
  const Bytes held = requests_.held();
  if (request_gate_.inside() || held.size() < wire::kHeaderSize) return false;
  return wire::read_header(held).message_length <= static_cast<std::int64_t>(held.size());
}

/// True if there is something to send to the server, or may be: an exchange may send again. For a
/// client that was cut off, none does that still owes it a reply.
bool ConnectionPair::may_send() const {
  if (requests_.unsent() || (holds_request() && !requests_ended_)) return true;
  if (!exchange_ || exchange_->is_hello()) return false;
  const bool owes = waits_ == Waits::for_nothing || exchange_->acknowledged();
  return !(owes && downstream_.was_cut_off());
}

/// The client has ended its direction. As mongod does, the pair answers the requests that arrived
/// whole, and drops the beginning of another one. The server learns of the end as soon as nothing
/// more goes to it: it interrupts reads and awaitable hellos then, as those of a client of its own.
/// Nobody reads the replies of a client that was cut off.
void ConnectionPair::end_if_answered() {
  if (closed_) return;
  if (request_gate_.queued() && !holds_request()) request_gate_.leave();
  if (may_send()) return;
  const bool owes = is_busy() || reply_gate_.ledger().outstanding() > 0 || replies_.unsent();
  if (!owes || downstream_.was_cut_off()) return close();
  if (!std::exchange(server_told_, true)) upstream_.finish();
}

// ---- from the server to the client -----------------------------------------------------------

void ConnectionPair::Replies::received(std::size_t bytes) {
  pair_.server_->heard(pair_.connected_);
  pair_.thread_.cells[Counted::bytes_from_servers].add(bytes);
  pair_.load_.bytes_received.add(bytes);
}

void ConnectionPair::Replies::writing(std::size_t bytes) {
  pair_.thread_.cells[Counted::bytes_to_clients].add(bytes);
  pair_.counts_.bytes_sent += bytes;
}

/// Bytes that arrived before the end are still passed on; then finished(), written() or learned()
/// closes the pair.
void ConnectionPair::Replies::source_ended() {
  if (!pair_.server_told_) pair_.server_lost();
  if (!pair_.learning_ && !unsent()) pair_.close();
}

void ConnectionPair::Replies::source_broke() {
  pair_.server_lost();
  pair_.close();
}

void ConnectionPair::Replies::written() {
  pair_.unsent_share_.reset();
  if (ended()) return pair_.close();
  resume();
  if (pair_.local_reply_ || pair_.is_owed_) pair_.replies_taken();
}

}  // namespace idproxy::net
