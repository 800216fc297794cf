#include "net/exchange_runner.hpp"

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "idproxy/observability/log.hpp"

namespace idproxy::net {

namespace action = rewrite::action;

namespace {

// Answers larger than this count against limits.buffered_messages while they wait for their turn.
constexpr std::size_t kUnbudgetedAnswer = std::size_t{64} * 1024;

Counted counted_as(rewrite::WriteKind kind) {
  switch (kind) {
    case rewrite::WriteKind::insert:
      return Counted::requests_insert;
    case rewrite::WriteKind::update:
      return Counted::requests_update;
    case rewrite::WriteKind::find_and_modify:
      break;
  }
  return Counted::requests_find_and_modify;
}

}  // namespace

/// An exchange and what it holds.
struct ExchangeRunner::UnderWay : rewrite::Exchange {
  using Exchange::Exchange;
  Budget::Share share;                // for the request
  Budget::Share reply_share;          // for a large reply that is being collected
  ids::Ticket ticket;                 // of the unanswered question to the store
  ids::StoreSource* asked = nullptr;  // by that question
  std::chrono::nanoseconds added{};   // of the time in which values were assigned
  bool legacy = false;                // the request is an OP_QUERY
};

void ExchangeRunner::Recycled::operator()(UnderWay* exchange) const {
  std::destroy_at(exchange);
  memory_->give_back(exchange);
}

ExchangeRunner::ExchangeRunner(Connection& connection, IoThread& thread, rewrite::ServerId server,
                               std::uint64_t id)
    : connection_(connection), thread_(thread), id_(id), server_(server) {}

ExchangeRunner::~ExchangeRunner() = default;

void ExchangeRunner::close() {
  closed_ = true;
  stop_waiting();
  local_reply_.reset();
  if (exchange_) exchange_->share.reset();
}

// ---- the request -----------------------------------------------------------------------------

void ExchangeRunner::begin(rewrite::Request&& request, Bytes message, Buffer* owner,
                           Budget::Share share) {
  if (memory_.wire_version == 0) ask_others();
  exchange_ = {new (thread_.exchanges.take(sizeof(UnderWay))) UnderWay(server_, &memory_),
               Recycled(thread_.exchanges)};
  exchange_->share = std::move(share);
  exchange_->legacy = wire::read_header(message).op_code != wire::OpCode::msg;
  if (owner == nullptr) make_spare(message.size());
  start(exchange_->request(std::move(request), message, owner, thread_.context, thread_.workspace),
        message);
}

/// If the client has not sent hello, or not yet, uses the server's replies to others.
void ExchangeRunner::ask_others() {
  const auto members = thread_.shared.directory.members();
  const rewrite::ServerDescription* server = members ? members->find(server_) : nullptr;
  if (server != nullptr) memory_.wire_version = server->said.wire_version;
}

/// Has a buffer ready for the case that the exchange copies a message of `size` bytes.
void ExchangeRunner::make_spare(std::size_t size) {
  Buffer& spare = thread_.workspace.spare;
  if (spare.capacity() >= size && BufferPool::is_for(size, spare)) return;
  thread_.buffers.give_back(std::move(spare));
  spare = thread_.buffers.take(size);
}

/// Carries out what the exchange has decided about its request, which is `message`.
void ExchangeRunner::start(const rewrite::Action& next, Bytes message) {
  if (const auto* need = std::get_if<action::AskStore>(&next)) return ask(*need);
  report();
  if (const auto* reply = std::get_if<action::Reply>(&next)) return answer_here(reply->message);
  if (exchange_->is_hello()) exchange_->share.reset();  // replies may stream without an end
  if (const auto* patched = std::get_if<action::Send>(&next)) {
    connection_.forwarded(wire::read_header(message), message);
    return send(*patched);
  }
  if (!std::holds_alternative<action::Relay>(next)) {
    throw std::logic_error("an exchange answered its request with an action for a reply");
  }
  if (!exchange_->is_hello()) thread_.cells[Counted::requests_relayed].add();
  connection_.forwarded(wire::read_header(message), message);
  if (!exchange_->awaits_reply()) ended();
  connection_.send(message);
}

void ExchangeRunner::send(const action::Send& message) {
  const bool whole = connection_.send(*message.message, message.original);
  note_added_time();
  if (whole && !closed_) taken();
}

/// The socket has taken the whole request.
void ExchangeRunner::taken() {
  exchange_->taken(thread_.workspace);
  if (!exchange_->awaits_reply()) ended();
}

void ExchangeRunner::request_written() {
  if (exchange_ && waits_ == Waits::for_nothing) taken();
}

/// The exchange has done what its last event from a peer called for. A reply that is relayed as it
/// came does not count: looking at the clock costs more than that.
void ExchangeRunner::note_added_time() {
  if (exchange_->assigned() == 0) return;
  exchange_->added += thread_.context.clock.monotonic() - exchange_->since();
}

void ExchangeRunner::answer_here(Bytes reply) {
  note_added_time();
  if (exchange_->handed_out() == 0) thread_.cells[Counted::requests_refused].add();
  if (!reply.empty()) {  // else w: 0, so no answer
    local_reply_ = std::make_unique<LocalReply>();
    local_reply_->message.append(reply);
    if (reply.size() > kUnbudgetedAnswer) {
      local_reply_->share = thread_.shared.budget.overdraw(reply.size());
    }
  }
  ended();
  deliver_local_reply();
}

void ExchangeRunner::reply_locally(Buffer reply) {
  local_reply_ = std::make_unique<LocalReply>();
  local_reply_->message = std::move(reply);
  deliver_local_reply();
}

void ExchangeRunner::deliver_local_reply() {
  if (!local_reply_ || !connection_.has_answered_all()) return;
  const auto reply = std::move(local_reply_);
  connection_.reply(reply->message.view());
}

// ---- waiting ---------------------------------------------------------------------------------

/// Asks the store, and waits until answered() or elapsed().
void ExchangeRunner::ask(const action::AskStore& need) {
  waits_ = Waits::for_store;
  exchange_->asked = need.strategy;
  connection_.start_timer(need.patience, ++questions_);
  exchange_->ticket = connection_.ask(need, questions_);
}

void ExchangeRunner::elapsed(std::uint64_t question) {
  if (waits_ == Waits::for_store) {
    std::string reason = exchange_->asked->why_waiting();
    if (reason.empty()) reason = "the id store has not answered in time";
    return answered(question, ids::Error{ids::Errc::unavailable, std::move(reason)});
  }
  if (waits_ != Waits::for_pause || question != 0) return;
  stop_waiting();
  act(exchange_->resume(thread_.context, thread_.workspace), {});
}

void ExchangeRunner::answered(std::uint64_t question, ids::Result<ids::Grant> grant) {
  if (waits_ != Waits::for_store || question != questions_) return;
  stop_waiting();
  const bool sent = exchange_->awaits_reply();
  const auto next = exchange_->answered(std::move(grant), thread_.context, thread_.workspace);
  if (sent) return act(next, {});
  start(next, exchange_->original());
  if (!closed_) connection_.resume_requests();
}

void ExchangeRunner::stop_waiting() {
  if (waits_ == Waits::for_nothing) return;
  waits_ = Waits::for_nothing;
  connection_.stop_timer();
  exchange_->ticket = ids::Ticket();
}

void ExchangeRunner::learned() {
  if (closed_) return;
  learning_ = false;
  thread_.context.members = thread_.shared.directory.members();
  act(exchange_->learned(thread_.context, thread_.workspace), {});
}

// ---- replies ---------------------------------------------------------------------------------

void ExchangeRunner::collects_reply(std::size_t bytes) {
  if (!exchange_ || exchange_->reply_share.bytes() > 0) return;
  exchange_->reply_share = thread_.shared.budget.overdraw(bytes);
}

void ExchangeRunner::reply(Bytes message) {
  if (exchange_->is_hello()) thread_.context.members = thread_.shared.directory.members();
  act(exchange_->reply(message, thread_.context, thread_.workspace), message);
}

/// Carries out an action for a reply. `reply`: the message that led to it; empty if none did.
void ExchangeRunner::act(const rewrite::Action& next, Bytes reply) {
  if (std::holds_alternative<action::Close>(next)) return connection_.reject_reply();
  if (const auto* need = std::get_if<action::AskStore>(&next)) return ask(*need);
  if (const auto* pause = std::get_if<action::Wait>(&next)) {
    waits_ = Waits::for_pause;
    return connection_.start_timer(pause->delay, 0);
  }
  if (const auto* learn = std::get_if<action::Learn>(&next)) {
    learning_ = true;
    return connection_.learn(*learn->said);
  }
  if (const auto* again = std::get_if<action::Send>(&next)) {
    connection_.awaits(exchange_->request_id());
    return send(*again);
  }
  const auto* own = std::get_if<action::Reply>(&next);
  connection_.reply(own != nullptr ? own->message : reply);
  if (closed_) return;
  if (own != nullptr) note_added_time();
  if (exchange_->streams()) return connection_.awaits(exchange_->request_id());
  ended();
  connection_.resume_requests();
}

std::optional<std::int32_t> ExchangeRunner::waiting_hello() const {
  if (!exchange_ || !exchange_->is_hello() || exchange_->legacy) return std::nullopt;
  if (!exchange_->awaits_reply() || learning_) return std::nullopt;
  return exchange_->request_id();
}

bool ExchangeRunner::awaits_reply() const {
  return exchange_ && exchange_->awaits_reply();
}

bool ExchangeRunner::delays_unacknowledged() const {
  return waits_ != Waits::for_nothing && exchange_ && !exchange_->acknowledged();
}

// ---- the end ---------------------------------------------------------------------------------

void ExchangeRunner::ended() {
  log_given_up();
  log_lost();
  if (exchange_->assigned() > 0) thread_.cells.insert_added.observe(exchange_->added);
  thread_.buffers.give_back(exchange_->release(thread_.workspace));
  thread_.workspace.trim();
  stop_waiting();
  exchange_.reset();
}

void ExchangeRunner::log_given_up() const {
  const auto given_up = exchange_->given_up();
  if (!given_up) return;
  log::event(log::Level::warning, "duplicates_given_up",
             "generated values stayed duplicates until " +
                 std::string(explain(given_up->ended_by)) + "; the client got mongod's error",
             {{"connection", id_},
              {"ns", given_up->ns},
              {"field", given_up->rule->field},
              {"attempts", given_up->attempts},
              {"ended_by", name_of(given_up->ended_by)}});
}

void ExchangeRunner::log_lost() const {
  const rewrite::Assignment* rule = exchange_->lost_writes();
  if (rule == nullptr || rule->outcomes->lost_logged.exchange(true)) return;
  log::event(log::Level::error, "server_loses_writes",
             "the server has left out documents of an unordered insert that a driver repeated, and "
             "has told no error: the proxy looked which were missing. Inserts without a rule lose "
             "them. MongoDB 5.0 and later do not do this: upgrade (logged once for each rule)",
             {{"rule", rule->rule_index}, {"ns", rule->rule->ns}});
}

namespace {

/// Returns the consequence for the document that such an upsert inserts, and the remedy.
std::string outcome_of(const rewrite::Forwarded& forwarded, const std::string& ns) {
  const rewrite::Rule& rule = *forwarded.assignment->rule;
  const std::string way_out(way_out_of(forwarded.reason, rule.field));
  if (forwarded.brings_value) {
    return "a document that it inserts has the value that the client sends; " + way_out;
  }
  if (rule.field == "_id") {
    return "a document that it inserts gets its _id from the client or from the server; " + way_out;
  }
  std::string without = "a document that it inserts may lack the field; " + way_out;
  if (rule.reserve) return without;
  return without + "; mongo-idproxy backfill --config FILE --ns " + ns + " --field " + rule.field +
         " gives values to documents that were stored without";
}

}  // namespace

/// Logs upserts that were sent without a value.
void ExchangeRunner::log_forwarded() const {
  for (const rewrite::Forwarded& each : exchange_->forwarded()) {
    const rewrite::Assignment& assignment = *each.assignment;
    if (each.reason == rewrite::ForwardReason::configured) continue;
    if (!each.ns.empty()) {
      log_past(each);
      continue;
    }
    const std::string ns = exchange_->ns();
    const auto upserts = assignment.outcomes->forwarded_log.add(ns, each.reason, each.upserts,
                                                                thread_.context.clock.monotonic());
    if (!upserts) continue;
    log::event(log::Level::warning, "upsert_forwarded",
               "an upsert was sent without a value of the rule, because adding one would not be "
               "safe: " +
                   outcome_of(each, ns) +
                   " (docs/duplicates.md#upserts; logged once an hour for each namespace and "
                   "reason, with the number of upserts since the last line)",
               {{"rule", assignment.rule_index},
                {"ns", ns},
                {"field", assignment.rule->field},
                {"reason", name_of(each.reason)},
                {"upserts", *upserts}});
  }
}

void ExchangeRunner::note_past(std::span<const rewrite::Forwarded> past) const {
  for (const rewrite::Forwarded& each : past) {
    each.count();
    log_past(each);
  }
}

namespace {

std::string text_of(const rewrite::Forwarded& past) {
  const std::string& field = past.assignment->rule->field;
  const std::string way_out(way_out_of(past.reason, field));
  if (past.reason == rewrite::ForwardReason::time_series) {
    return "an insert into a time-series collection, to which no rule applies, was sent without "
           "the rule's values: " +
           way_out;
  }
  return "a command has the server store documents in a collection with a rule, without its "
         "values: " +
         way_out + "; mongo-idproxy backfill --config FILE --ns " + past.ns + " --field " + field +
         " gives values to documents that were stored without";
}

}  // namespace

/// Logs a command that stores documents to which the rules are not applied.
void ExchangeRunner::log_past(const rewrite::Forwarded& past) const {
  const rewrite::Assignment& assignment = *past.assignment;
  const auto commands = assignment.outcomes->forwarded_log.add(past.ns, past.reason, past.upserts,
                                                               thread_.context.clock.monotonic());
  if (!commands) return;
  log::event(log::Level::warning, "written_past_the_rules",
             text_of(past) +
                 " (docs/duplicates.md#writes-past-the-rules; logged once an hour for each "
                 "namespace and reason, with the number of commands since the last line)",
             {{"rule", assignment.rule_index},
              {"ns", past.ns},
              {"field", assignment.rule->field},
              {"reason", name_of(past.reason)},
              {"commands", *commands}});
}

void ExchangeRunner::report() {
  Cells& cells = thread_.cells;
  if (exchange_->is_hello()) cells[Counted::requests_hello].add();
  if (exchange_->is_status()) cells[Counted::requests_status].add();
  if (exchange_->is_next()) cells[Counted::requests_next].add();
  if (exchange_->assigned() > 0) {
    cells[counted_as(exchange_->command_kind())].add();
    cells[Counted::documents_refused].add(exchange_->refused());
  }
  log_forwarded();
  log_driver_made();
  log_zero();
}

void ExchangeRunner::log_driver_made() const {
  const rewrite::Assignment* rule = exchange_->driver_made();
  if (rule == nullptr || rule->outcomes->driver_made_logged.exchange(true)) return;
  log::event(
      log::Level::warning, "driver_made_ids",
      "all documents of an insert brought an _id that their driver made, so the rule had "
      "nothing to assign: make the driver leave _id out "
      "(docs/drivers.md#documents-without-an-_id), or set assign: driver, and then the insertedId "
      "that the driver reports is not the stored one",
      {{"rule", rule->rule_index}, {"ns", rule->rule->ns}, {"field", rule->rule->field}});
}

void ExchangeRunner::log_zero() const {
  const rewrite::Assignment* rule = exchange_->leaves_zero();
  if (rule == nullptr || rule->outcomes->zero_logged.exchange(true)) return;
  log::event(log::Level::warning, "zero_stored",
             "a document brought null, 0, \"\" or an id of zeros in the rule's field, and the rule "
             "leaves it: typed languages send that for a field that was never set. Have them leave "
             "the field out, or set assign: missing-or-zero (docs/drivers.md#zero-values; logged "
             "once for each rule)",
             {{"rule", rule->rule_index}, {"ns", exchange_->ns()}, {"field", rule->rule->field}});
}

}  // namespace idproxy::net
