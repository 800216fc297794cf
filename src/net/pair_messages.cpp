#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "idproxy/wire/op_query.hpp"
#include "net/connection_pair.hpp"
#include "net/exchange_log.hpp"

// The messages of a pair: what passes through it, and its exchanges.
namespace idproxy::net {

namespace action = rewrite::action;

namespace {

// Replies and answers larger than this count against limits.buffered_messages.
constexpr std::size_t kUnbudgetedReply = std::size_t{64} * 1024;

constexpr std::string_view kCompressedReply =
    "a server's OP_COMPRESSED has a compressor that was not negotiated, or is malformed";

Counted counted_as(rewrite::WriteKind kind) {
  switch (kind) {
    case rewrite::WriteKind::insert:
      return Counted::requests_insert;
    case rewrite::WriteKind::update:
      return Counted::requests_update;
    case rewrite::WriteKind::bulk_write:
      return Counted::requests_bulk_write;
    case rewrite::WriteKind::find_and_modify:
      break;
  }
  return Counted::requests_find_and_modify;
}

/// False for a write that says otherwise, whose fields have been read.
bool may_be_in_transaction(const rewrite::Decision& decision) {
  const auto* write = std::get_if<rewrite::WriteRequest>(&std::get<rewrite::Request>(decision));
  return write == nullptr || !write->command.options || write->command.options->in_transaction;
}

Counted counted_as(wire::Compressor compressor) {
  if (compressor == wire::Compressor::snappy) return Counted::requests_snappy;
  return compressor == wire::Compressor::zlib ? Counted::requests_zlib : Counted::requests_zstd;
}

}  // namespace

/// Delivers results from any thread to a pair's own thread. The pair may be gone by then. Keeps the
/// thread's loop running.
class ConnectionPair::Messenger {
 public:
  Messenger(IoThread& thread, std::uint64_t pair)
      : thread_(thread), guard_(thread.loop.guard()), pair_(pair) {}

  /// Calls `work(pair)` on the pair's thread. Call once.
  template <class Work>
  void deliver(Work work) {
    thread_.loop.post([&thread = thread_, pair = pair_, work = std::move(work)]() mutable {
      const auto found = thread.pairs.find(pair);
      if (found == thread.pairs.end()) return;
      ConnectionPair& opened = *found->second;
      opened.guarded([&] { work(opened); });
    });
  }

 private:
  IoThread& thread_;
  EventLoop::Guard guard_;
  std::uint64_t pair_;
};

/// The answer to a question of an exchange. One that arrives too late is ignored, and its values go
/// back to the store.
class ConnectionPair::StoreAnswer final : public ids::Waiter {
 public:
  StoreAnswer(ConnectionPair& pair, std::uint64_t question)
      : messenger_(pair.thread_, pair.id_), question_(question) {}

  void answered(ids::Result<ids::Grant> grant) override {
    messenger_.deliver(
        [question = question_, answer = std::move(grant)](ConnectionPair& pair) mutable {
          pair.answered(question, std::move(answer));
        });
  }

 private:
  Messenger messenger_;
  std::uint64_t question_;
};

// ---- requests --------------------------------------------------------------------------------

bool ConnectionPair::take_request(Bytes front) {
  using Kind = RequestGate::Step::Kind;
  if (unreachable_) {
    turn_away(front);
    return false;
  }
  const RequestGate::Client client{.draining = thread_.draining,
                                   .needs_login = needs_login(),
                                   .has_replies = !owes_replies(),
                                   .x509 = thread_.context.x509,
                                   .compressors = memory_.compressors,
                                   .expected = requests_.expected()};
  auto step = request_gate_.decide(front, client, thread_.namespaces);
  switch (step.kind) {
    case Kind::relay:
      if (step.begins) relay_begins(step);
      if (request_gate_.relayed(step)) deadline_.stop();
      requests_.relay(front.first(step.bytes));
      return true;
    case Kind::collect:
      deadline_.stop();
      if (!requests_.write_relayed()) return false;
      requests_.consume(step.bytes);
      if (may_be_in_transaction(step.decision)) note_transaction(step.about, step.message);
      begin_exchange(std::move(step), front.first(step.bytes));
      return true;
    case Kind::need:
      requests_.need(step.bytes, step.length);
      return false;
    case Kind::wait:
      queue_for_room();
      return false;
    case Kind::later:
      is_owed_ = true;
      return false;
    case Kind::late:
      if (!requests_.write_relayed()) return false;
      if (!refuse(step)) return false;
      requests_.consume(step.bytes);
      return true;
    case Kind::reject:
      break;
  }
  protocol_error(step.fault);
  return false;
}

void ConnectionPair::relay_begins(const RequestGate::Step& step) {
  deadline_.stop();
  thread_.cells[Counted::requests_relayed].add();
  const auto& relay = std::get<rewrite::decision::Relay>(step.decision);
  if (relay.changes_user) memory_.rights.forget();
  for (const rewrite::Forwarded& past : relay.past) {
    past.count();
    log_past(past, thread_.context.clock);
  }
  forwarded(step.about, step.message);
  note_transaction(step.about, step.message);
  if (step.about.compressor != wire::Compressor::none) thread_.inflation.trim();
}

void ConnectionPair::note_transaction(const RequestGate::Message& message, Bytes front) {
  const auto step = rewrite::transaction_step(message.header, front);
  if (step) thread_.shared.transactions.note(*step, id_, transactions_, thread_.now());
}

/// Answers the first request of a client whose server cannot be reached, and closes.
void ConnectionPair::turn_away(Bytes front) {
  using Kind = Refusal::Kind;
  const auto id = static_cast<std::int32_t>(thread_.workspace.next_request_id++);
  const Refusal answer = refuse_unreachable(front, *unreachable_, id);
  if (answer.kind == Kind::need_more) return requests_.need(answer.bytes);
  if (answer.kind == Kind::close) return close();
  thread_.cells[Counted::requests_refused].add();
  requests_ended_ = true;
  requests_.consume(front.size());
  reply(answer.reply.view());
  if (!closed_) end_after_replies();
}

/// Refuses a request that arrived while draining. False if more of it is needed, or if no more
/// requests are read.
bool ConnectionPair::refuse(const RequestGate::Step& step) {
  using Kind = Refusal::Kind;
  const auto id = static_cast<std::int32_t>(thread_.workspace.next_request_id++);
  const auto length = static_cast<std::size_t>(step.about.header.message_length);
  Refusal late = refuse_late(step.message, length, id);
  if (late.kind == Kind::need_more) requests_.need(step.bytes);
  if (late.kind == Kind::close) requests_ended_ = true;
  if (late.kind != Kind::reply) return false;
  thread_.cells[Counted::requests_shutdown].add();
  reply_locally(step.about.compressor, late.reply.view());
  return true;
}

void ConnectionPair::queue_for_room() {
  request_gate_.queue([&thread = thread_, id = id_](Budget::Share more) {
    Messenger(thread, id).deliver([given = std::move(more)](ConnectionPair& pair) mutable {
      pair.request_gate_.admitted(std::move(given));
      pair.requests_.resume();
    });
  });
}

void ConnectionPair::forwarded(const RequestGate::Message& message, Bytes request) {
  request_gate_.forwarded();
  ++counts_.requests;
  counts_.lately.add(1, 0, thread_.now());
  if (message.compressor != wire::Compressor::none) {
    thread_.cells[counted_as(message.compressor)].add();
    counts_.compressor = message.compressor;
    if (message.may_stream) reply_gate_.may_stream();
  }
  if (!message.expects_reply) return load_.requests.add();
  if (message.header.op_code == wire::OpCode::query && wire::is_exhaust(request)) {
    reply_gate_.ledger().permit_unrequested();
  }
  expect_reply(message, message.header.request_id);
}

/// A request goes to the server, perhaps a part of one, or one that goes again.
void ConnectionPair::expect_reply(const RequestGate::Message& message, std::int32_t request_id) {
  using Reply = ServerLoad::Reply;
  load_.requests.add();
  reply_gate_.ledger().forwarded(request_id);
  const bool may_wait = message.may_wait || reply_gate_.ledger().unrequested_permitted();
  load_.requested(waiting_, may_wait ? Reply::may_wait : Reply::prompt, thread_.now());
}

/// The last reply to the oldest request has ended. Returns the server's time for it, if it counts.
std::optional<std::chrono::nanoseconds> ConnectionPair::answered() {
  reply_gate_.ledger().answered();
  return load_.answered(waiting_, thread_.now());
}

// ---- replies ---------------------------------------------------------------------------------

bool ConnectionPair::take_reply(Bytes front) {
  using Kind = ReplyGate::Step::Kind;
  const bool asked = exchange_ && exchange_->asks_server();
  const ReplyGate::Exchange exchange{
      .awaits_reply = asked || (exchange_ && exchange_->awaits_reply()),
      .sent_whole = !requests_.unsent()};
  const auto step = reply_gate_.decide(front, exchange, requests_ended_);
  switch (step.kind) {
    case Kind::relay:
      replies_.relay(front.first(step.bytes));
      return reply_relayed(reply_gate_.relayed(step));
    case Kind::exchange: {
      if (!replies_.write_relayed()) return false;
      replies_.consume(step.bytes);
      const Bytes received = front.first(step.bytes);
      const auto reply = inflated(received);
      if (!reply) break;
      note_reply();
      const auto next = exchange_->reply(*reply, thread_.context, thread_.workspace);
      asked ? go_on_with_request(next) : act_on_reply(next, received);
      return true;
    }
    case Kind::need:
      // Does not wait for room in the budget, because its request holds some.
      if (step.bytes > kUnbudgetedReply && exchange_ && exchange_->reply_share.bytes() == 0) {
        exchange_->reply_share = thread_.shared.budget.overdraw(step.bytes);
      }
      replies_.need(step.bytes);
      return false;
    case Kind::over:
      end_after_replies();
      return false;
    case Kind::reject:
      break;
  }
  protocol_error({"bad_reply", step.fault.empty() ? kCompressedReply : step.fault});
  return false;
}

/// The reply to the exchange, inflated if it is compressed; nothing if that cannot be done. Valid
/// until the next one.
std::optional<Bytes> ConnectionPair::inflated(Bytes reply) {
  const wire::MsgHeader header = wire::read_header(reply);
  if (header.op_code != wire::OpCode::compressed) return reply;
  if (reply.size() < wire::kCompressedOffset) return std::nullopt;
  const auto view = wire::CompressedView::read(header, reply);
  if (!view || !memory_.compressors.has(view->compressor)) return std::nullopt;
  const std::size_t both = reply.size() + static_cast<std::size_t>(view->original.message_length);
  if (both > kUnbudgetedReply) {
    exchange_->reply_share = thread_.shared.budget.overdraw(both);
  }
  Inflation& inflation = thread_.inflation;
  if (!inflation.codec.inflate(*view, inflation.reply)) return std::nullopt;
  return inflation.reply.view();
}

/// The exchange's reply has come.
void ConnectionPair::note_reply() {
  const auto took = answered();
  if (!exchange_->is_hello()) return;
  if (took) server_->round_trip = took->count();
  server_->said_hello = thread_.now().count();
  thread_.context.members = thread_.shared.directory.members();
}

bool ConnectionPair::reply_relayed(ReplyGate::Ended ended) {
  if (ended == ReplyGate::Ended::nothing) return true;
  if (ended == ReplyGate::Ended::reply) {
    if (!thread_.draining) return true;
    // The server could stream replies without end.
    replies_.write_relayed();
    if (!closed_) end_after_replies();
    return false;
  }
  // If an exchange, a local reply or a request that has arrived waits for the end of a reply, that
  // goes out at once; otherwise all replies of one read go out together.
  if (is_busy() || !requests_.held().empty()) replies_.write_relayed();
  if (closed_) return false;
  answered();
  if (reply_gate_.ledger().outstanding() > 0) return true;
  replies_taken();
  return true;
}

/// All replies have come, or the client has taken what was left of them.
void ConnectionPair::replies_taken() {
  deliver_local_reply();
  if (!owes_replies()) is_owed_ = false;
  requests_.resume();
}

/// Reads no more replies, and closes once those before are written.
void ConnectionPair::end_after_replies() {
  replies_.end();
  if (!replies_.unsent()) close();
}

void ConnectionPair::reply(Bytes message) {
  replies_.write(message);
  if (closed_ || !replies_.unsent() || message.size() <= kUnbudgetedReply) return;
  unsent_share_ = thread_.shared.budget.overdraw(message.size());
}

/// `plain` in the compressor of its request. Of those that wait for their turn, none is large: they
/// refuse what comes late.
void ConnectionPair::reply_locally(wire::Compressor compressor, Bytes plain) {
  const Bytes message = thread_.inflation.deflate(compressor, plain);
  if (!owes_replies()) return reply(message);
  local_reply_ = std::make_unique<Buffer>();
  local_reply_->append(message);
}

/// Sends it once all earlier requests have been answered, and the answers have been sent.
void ConnectionPair::deliver_local_reply() {
  if (!local_reply_ || owes_replies()) return;
  const auto local = std::move(local_reply_);
  reply(local->view());
}

// ---- the request of an exchange --------------------------------------------------------------

void ConnectionPair::Recycled::operator()(UnderWay* exchange) const {
  std::destroy_at(exchange);
  memory->give_back(exchange);
}

/// `received`: the message of `step`, as it came.
void ConnectionPair::begin_exchange(RequestGate::Step&& step, Bytes received) {
  requests_.expect(received.size());
  Buffer* owner = requests_.buffer_of(received);
  if (step.about.compressor != wire::Compressor::none) {
    Buffer& buffer = thread_.inflation.request;
    owner = BufferPool::is_for(step.message.size(), buffer) ? &buffer : nullptr;
  }
  if (memory_.wire_version == 0) ask_others();
  memory_.logins = server_->logins;
  exchange_ = {new (thread_.exchanges.take(sizeof(UnderWay))) UnderWay(server_->id, &memory_),
               Recycled{&thread_.exchanges}};
  exchange_->about = step.about;
  exchange_->share = request_gate_.take_share();
  if (owner == nullptr) make_spare(step.message.size());
  act_on_request(exchange_->request(std::get<rewrite::Request>(std::move(step.decision)),
                                    step.message, owner, thread_.context, thread_.workspace),
                 step.message, received);
}

/// If the client has not sent hello, or not yet, uses the server's replies to others.
void ConnectionPair::ask_others() {
  const auto members = thread_.shared.directory.members();
  const rewrite::ServerDescription* server = members ? members->find(server_->id) : nullptr;
  if (server != nullptr) memory_.wire_version = server->said.wire_version;
}

/// Has a buffer ready for the case that the exchange copies a message of `size` bytes.
void ConnectionPair::make_spare(std::size_t size) {
  Buffer& spare = thread_.workspace.spare;
  if (spare.capacity() >= size && BufferPool::is_for(size, spare)) return;
  thread_.buffers.give_back(std::move(spare));
  spare = thread_.buffers.take(size);
}

/// Carries out what the exchange has decided about its request, which is `message`, and came as
/// `received`.
void ConnectionPair::act_on_request(const rewrite::Action& next, Bytes message, Bytes received) {
  if (const auto* need = std::get_if<action::AskStore>(&next)) return ask(*need);
  if (const auto* question = std::get_if<action::AskServer>(&next)) return ask_server(*question);
  count_request();
  if (exchange_->facts().was_odd()) log_request(*exchange_, thread_.context.clock);
  if (const auto* own = std::get_if<action::Reply>(&next)) return answer_here(own->message);
  if (exchange_->is_hello()) exchange_->share.reset();  // replies may stream without an end
  const auto* patched = std::get_if<action::Send>(&next);
  if (patched == nullptr && !std::holds_alternative<action::Relay>(next)) {
    throw std::logic_error("an exchange answered its request with an action for a reply");
  }
  if (patched == nullptr && !exchange_->is_hello()) thread_.cells[Counted::requests_relayed].add();
  RequestGate::Message about = exchange_->about;
  about.may_wait = about.may_wait || exchange_->facts().may_wait;
  forwarded(about, message);
  if (patched != nullptr) return send(*patched);
  if (!exchange_->awaits_reply()) end_exchange();
  requests_.write(received);
}

/// Before the request itself.
void ConnectionPair::ask_server(const action::AskServer& question) {
  request_gate_.forwarded();
  expect_reply(exchange_->about, exchange_->request_id());
  send({question.message, {}});
}

void ConnectionPair::count_request() {
  Cells& cells = thread_.cells;
  if (exchange_->is_hello()) cells[Counted::requests_hello].add();
  if (exchange_->is_status()) cells[Counted::requests_status].add();
  if (exchange_->is_next()) cells[Counted::requests_next].add();
  if (exchange_->is_assign()) cells[Counted::requests_assign].add();
  counts_.documents += exchange_->facts().documents;
  counts_.lately.add(0, exchange_->facts().documents, thread_.now());
  if (exchange_->facts().assigned == 0) return;
  cells[counted_as(exchange_->facts().command_kind)].add();
  cells[Counted::documents_refused].add(exchange_->facts().refused);
}

void ConnectionPair::send(const action::Send& message) {
  const wire::Compressor compressor = exchange_->about.compressor;
  bool whole = false;
  if (compressor == wire::Compressor::none) {
    whole = requests_.write(*message.message, message.original);
  } else {
    Inflation& inflation = thread_.inflation;
    inflation.plain.clear();
    message.message->copy(message.original, 0, inflation.plain);
    requests_.write(inflation.deflate(compressor, inflation.plain.view()));
    whole = !requests_.unsent();
  }
  note_added_time();
  if (whole && !closed_) sent();
}

/// The socket has taken the whole request.
void ConnectionPair::sent() {
  exchange_->taken(thread_.workspace);
  if (!exchange_->awaits_reply() && !exchange_->asks_server()) end_exchange();
}

/// The exchange has done what its last event from a peer called for. A reply that is relayed as it
/// came does not count: looking at the clock costs more than that.
void ConnectionPair::note_added_time() {
  if (exchange_->facts().assigned == 0) return;
  exchange_->added += thread_.context.clock.monotonic() - exchange_->facts().since;
}

void ConnectionPair::answer_here(Bytes message) {
  note_added_time();
  if (exchange_->facts().handed_out == 0) thread_.cells[Counted::requests_refused].add();
  const wire::Compressor compressor = exchange_->about.compressor;
  Buffer answer;
  answer.append(message);
  end_exchange();
  if (!answer.empty()) reply_locally(compressor, answer.view());  // else w: 0, so no answer
}

// ---- what an exchange waits for --------------------------------------------------------------

/// Asks the store, and waits until answered() or elapsed().
void ConnectionPair::ask(const action::AskStore& need) {
  waits_ = Waits::for_store;
  exchange_->asked = need.strategy;
  exchange_->waiting.emplace(need.rule->waiting, thread_.now());
  start_timer(need.patience);
  exchange_->ticket =
      need.strategy->ask(need.count, std::make_unique<StoreAnswer>(*this, ++questions_));
}

void ConnectionPair::start_timer(std::chrono::nanoseconds delay) {
  timer_.start(delay, [this] { guarded([this] { elapsed(); }); });
}

void ConnectionPair::elapsed() {
  if (waits_ == Waits::for_store) {
    std::string reason = exchange_->asked->why_waiting();
    if (reason.empty()) reason = ids::kNotInTime;
    return answered(questions_, ids::Error{ids::Errc::unavailable, std::move(reason), nullptr,
                                           exchange_->asked->held_by()});
  }
  stop_waiting();
  act_on_reply(exchange_->resume(thread_.context, thread_.workspace), {});
}

void ConnectionPair::answered(std::uint64_t question, ids::Result<ids::Grant> grant) {
  if (waits_ != Waits::for_store || question != questions_) return;
  stop_waiting();
  const bool is_sent = exchange_->awaits_reply();
  const auto next = exchange_->answered(std::move(grant), thread_.context, thread_.workspace);
  is_sent ? act_on_reply(next, {}) : go_on_with_request(next);
}

/// What it had to wait for before it is sent is there.
void ConnectionPair::go_on_with_request(const rewrite::Action& next) {
  if (std::holds_alternative<action::Close>(next)) return act_on_reply(next, {});
  act_on_request(next, exchange_->original(), exchange_->original());
  if (!closed_) requests_.resume();
}

void ConnectionPair::stop_waiting() {
  if (waits_ == Waits::for_nothing) return;
  waits_ = Waits::for_nothing;
  timer_.cancel();
  exchange_->ticket.reset();
  exchange_->waiting.reset();
}

// ---- the replies of an exchange --------------------------------------------------------------

/// Carries out an action for a reply. `message`: the reply that led to it; empty if none did.
void ConnectionPair::act_on_reply(const rewrite::Action& next, Bytes message) {
  if (std::holds_alternative<action::Close>(next)) {
    return protocol_error({"bad_reply", "the proxy cannot parse a server's reply"});
  }
  if (const auto* need = std::get_if<action::AskStore>(&next)) return ask(*need);
  if (const auto* pause = std::get_if<action::Wait>(&next)) {
    waits_ = Waits::for_pause;
    return start_timer(pause->delay);
  }
  if (const auto* news = std::get_if<action::Learn>(&next)) return learn(*news->said);
  if (const auto* again = std::get_if<action::Send>(&next)) {
    RequestGate::Message about = exchange_->about;
    about.may_wait = about.may_wait || exchange_->facts().may_wait;
    expect_reply(about, exchange_->request_id());
    return send(*again);
  }
  const auto* own = std::get_if<action::Reply>(&next);
  if (own == nullptr && !std::holds_alternative<action::Relay>(next)) {
    throw std::logic_error("an exchange answered a reply with an action for its request");
  }
  const auto compressor = exchange_->about.compressor;
  const Bytes answer = own == nullptr ? message : own->message;
  const bool deflates = own != nullptr && compressor != wire::Compressor::none;
  reply(deflates ? thread_.inflation.deflate(compressor, answer) : answer);
  if (closed_) return;
  if (own != nullptr) note_added_time();
  if (exchange_->streams()) return expect_reply(exchange_->about, exchange_->request_id());
  end_exchange();
  requests_.resume();
}

/// Lets the topology take `said` into account. Until it has, no further replies are read.
void ConnectionPair::learn(const rewrite::HelloReply& said) {
  learning_ = true;
  const auto messenger = std::make_shared<Messenger>(thread_, id_);
  thread_.shared.observer->learn(server_->id, said, [messenger] {
    messenger->deliver([](ConnectionPair& pair) { pair.learned(); });
  });
}

void ConnectionPair::learned() {
  learning_ = false;
  thread_.context.members = thread_.shared.directory.members();
  act_on_reply(exchange_->learned(thread_.context, thread_.workspace), {});
  if (replies_.ended() && !replies_.unsent()) return close();
  replies_.resume();
}

void ConnectionPair::end_exchange() {
  if (exchange_->facts().ended_badly()) {
    log_end(*exchange_, {id_, memory_.client.get(), memory_.logged_in, thread_.context.clock});
  }
  counts_.values += exchange_->facts().values_sent;
  if (exchange_->facts().assigned > 0) thread_.cells.insert_added.observe(exchange_->added);
  thread_.buffers.give_back(exchange_->release(thread_.workspace));
  thread_.workspace.trim();
  if (exchange_->about.compressor != wire::Compressor::none) thread_.inflation.trim();
  stop_waiting();
  exchange_.reset();
}

}  // namespace idproxy::net
