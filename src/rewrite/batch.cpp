#include "rewrite/batch.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "idproxy/bson/builder.hpp"

namespace idproxy::rewrite {
namespace {

/// True if the server has refused this field of the command.
bool rejects(std::string_view field, const wire::OpMsgView& message, std::int64_t code) {
  using enum ErrorCode;
  constexpr std::array kRejections{bad_value,       failed_to_parse,  type_mismatch,
                                   invalid_options, api_strict_error, idl_unknown_field};
  if (std::ranges::none_of(kRejections, [&](ErrorCode its) { return code == its; })) return false;
  const auto errmsg = bson::find(message.body(), "errmsg", bson::Type::string);
  return errmsg && errmsg->text().find(field) != std::string_view::npos;
}

/// The position in the command of the first statement with an error.
std::optional<std::size_t> first_failed(const WriteReply& reply) {
  if (reply.errors.empty()) return std::nullopt;
  return static_cast<std::size_t>(reply.errors.front().index);
}

Stops stops_of(const std::optional<WriteOptions>& options) {
  if (!options || options->in_transaction) return Stops::in_transaction;
  return options->stops() ? Stops::at_errors : Stops::never;
}

std::optional<WriteOptions> options_of(const WriteRequest& write, const GivenValues& given,
                                       std::size_t statements) {
  auto options = divisible(write.message, statements);
  if (options) options->in_turn = needs_turn(*write.plan, given);
  return options;
}

constexpr const char* kMoved = "was for a collection that has been dropped, made anew or renamed";

CommandError some_are_lost() {
  return {ErrorCode::operation_failed,
          "mongo-idproxy: the server has stored only some of the documents, and does not say which "
          "(MongoDB 4.4 leaves out documents of an unordered insert that a driver repeats)"};
}

}  // namespace

Batch::Batch(WriteState& write)
    : write_(write),
      plan_(*write.request_.plan),
      given_(write.given_),
      command_(write.request_, given_, std::move(write.refused_)),
      options_(options_of(write.request_, given_, write.statements_)),
      progress_(write.statements_, stops_of(options_)),
      fates_(write.statements_, write.sent_ ? Fate::sent : Fate::unsent),
      budget_(options_ ? options_->max_time_ms : std::nullopt, write.started_),
      taken_(plan_, given_, command_.ns(), &write.request_),
      renewal_(plan_, given_, taken_) {
  const WriteKind kind = write.request_.command.kind;
  if (needs_turn(plan_, given_)) turns_.emplace(plan_, given_, command_, kind, write.memory_);
  if (write.sent_) progress_.sent_whole();
  if (!write.acknowledged_) options_.reset();
  const bool may_be_repeated = kind == WriteKind::insert && options_ &&
                               (write.statements_ > 1 || is_unsure()) && options_->has_txn_number &&
                               !options_->in_transaction;
  if (turns_ && may_be_repeated) turns_->may_be_repeated();
  if (!write.sent_ && kind == WriteKind::insert && plan_.reserves()) {
    reservations_ = std::make_unique<ReserveStage>(write.request_, given_, command_.refused());
  }
}

void Batch::tell(ExchangeFacts& facts) const {
  const auto& [rule, ended_by] = repeats_.given_up();
  if (rule != nullptr) facts.given_up = {rule->ns, rule->rule, rule->attempts(), ended_by};
  if (repeated_.has_lost()) facts.lost_writes = &plan_.front();
  facts.may_wait = turns_ && turns_->may_wait();
}

// ---- before a command --------------------------------------------------------------------------

/// If all remaining statements have collided, they keep their errors; else the whole command fails
/// with mongod's error for this case.
Batch::Next Batch::end_if_expired() {
  if (!has_expired()) return std::nullopt;
  if (const auto end = keep_errors(progress_.todo(), RetryBound::max_time)) return end;
  return fail({ErrorCode::max_time_ms_expired, "operation exceeded time limit"});
}

/// Ends the write if all of these statements have collided.
Batch::Next Batch::keep_errors(std::span<const std::int32_t> statements, RetryBound ended_by) {
  if (progress_.commands() == 0 || !only_repeats(statements)) return std::nullopt;
  repeats_.abandon(statements, ended_by);
  return finish(report());
}

std::optional<Need> Batch::lacks() {
  if (reservations_) {
    if (renews_before_sending_) {
      if (auto need = renews()) return need;
      renewed_before_sending();
    }
    if (auto need = reservations_->need(progress_.todo())) return need;
  }
  if (!options_ || !turns_) return std::nullopt;
  if (auto need = turns_->provide(progress_.todo())) {
    if (progress_.commands() == 0) need->patience -= write_.now_ - write_.patient_since_;
    return need;
  }
  return turns_->must_ask() ? std::optional(Need{Stage::earlier_attempt}) : std::nullopt;
}

Batch::Next Batch::accept(const Need& need) {
  if (need.stage == Stage::earlier_attempt) return told_whether_executed(*write_.reply_);
  if (need.stage == Stage::fresh_values) {  // which makes do without
    renewal_.answered(*std::move(write_.grant_));
    return std::nullopt;
  }
  if (!*write_.grant_) {
    const ids::Error& error = write_.grant_->error();
    const bool is_turn = need.stage == Stage::turn;
    if (is_turn && lost_its_index(error)) return std::nullopt;
    return no_values_for(*need.assignment, with_progress(error, is_turn && turns_->has_some()));
  }
  if (need.stage == Stage::turn) {
    turns_->accept(**std::move(write_.grant_));
  } else {
    reserved(**std::move(write_.grant_));
  }
  return std::nullopt;
}

/// Statements that have collided keep their errors. Otherwise nobody could tell the client about
/// the statements that were never sent, so that the whole command fails.
Action Batch::no_values_for(const Assignment& rule, const ids::Error& error) {
  if (const auto end = keep_errors(progress_.todo(), RetryBound::no_value)) return *end;
  return fail(no_values(client(), rule, error));
}

// ---- sending -----------------------------------------------------------------------------------

Action Batch::send() {
  if (const auto end = end_if_expired()) return *end;
  if (!options_) {
    progress_.sent_whole();
    return send_whole();
  }
  if (progress_.begins_part()) {
    budget_.end();
    repeated_.begin_part();
  }
  progress_.send(most_at_once());
  if (progress_.commands() > 1) begin_question();
  while (const auto fit = emit_part()) {
    if (*fit == progress_.out().size()) return send_part();
    progress_.shorten(*fit);
  }
  return action::Close{};
}

/// Writes the next command. Returns how many of its statements fit into it.
std::optional<std::size_t> Batch::emit_part() {
  if (turns_) turns_->number(progress_.out());
  // Its only statement may have been sent without upsert, and found nothing.
  const bool has_begun = write_.looked_ == WriteState::Looked::found_nothing;
  const bool first = progress_.commands() == 1 && !has_begun;
  WritePart part{progress_.out(),    &*options_,   first,         budget_.time_left(write_.now_),
                 write_.request_id_, own_fields(), write_.named()};
  part.numbered = !has_begun;
  return command_.emit(part, *write_.workspace_, write_.message_);
}

Action Batch::send_part() {
  if (!write_.fits()) return fail(too_large());
  if (turns_) turns_->send(progress_.out());
  repeats_.sent(progress_.out());
  note_sent();
  return action::Send{&write_.message_, original()};
}

/// Sends all statements in one command, with nothing left to decide.
Action Batch::send_whole() {
  options_.reset();
  const WritePart whole{progress_.out(),    nullptr,      true,          std::nullopt,
                        write_.request_id_, own_fields(), write_.named()};
  if (!command_.emit(whole, *write_.workspace_, write_.message_)) return action::Close{};
  if (!write_.fits()) return fail(too_large());
  note_sent();
  return action::Send{&write_.message_, original()};
}

/// True if all statements that are left of the batch have collided. With an ordered batch, those
/// after the first do not count.
bool Batch::only_repeats(std::span<const std::int32_t> next) const {
  const bool others_count = turns_ && !options_->ordered && next.size() > 1;
  // A value that could not be reserved may have been renewed before the statement was ever sent.
  if (reservations_ && !command_.replies().errors().contains(next.front())) return false;
  return repeats_.contains(next.front()) && progress_.only_repeats() && !others_count;
}

Action Batch::fail(CommandError error) const {
  error.repeats_write = progress_.commands() == 0 && may_repeat_write(original());
  write_.workspace_->reply.clear();
  const auto id = static_cast<std::int32_t>(write_.workspace_->next_request_id++);
  append_error_reply(original(), id, error, write_.workspace_->reply);
  return action::Reply{write_.workspace_->reply.view()};
}

// ---- guards -----------------------------------------------------------------------------------

std::vector<std::int32_t> Batch::moved_in(std::span<const WriteError> errors) const {
  std::vector<std::int32_t> moved;
  if (!write_.guards_) return moved;
  for (const WriteError& error : errors) {
    if (!write_.guards_->is_moved(error.code)) continue;
    moved.push_back(progress_.out()[static_cast<std::size_t>(error.index)]);
  }
  return moved;
}

/// True if the index has gone since the guard was asked, and the write may still wait for it.
bool Batch::lost_its_index(const ids::Error& error) {
  if (error.code != ids::Errc::unguarded || write_.named().empty()) return false;
  const bool was_sent = progress_.commands() > 0;
  if (write_.guards_->patience(write_.now_, was_sent).count() <= 0) return false;
  write_.guards_->moved(write_.now_);
  return !write_.guards_->moves_too_often(write_.now_);
}

Action Batch::moved_too_often() {
  return no_values_for(
      write_.guards_->rule(),
      {ids::Errc::unavailable, "the collection is dropped or replaced again and again"});
}

// ---- reservations -----------------------------------------------------------------------------

void Batch::reserved(ids::Grant grant) {
  ReserveStage::Outcome outcome = reservations_->accept(std::move(grant));
  for (RefusedDocument& each : outcome.refused) command_.refuse(std::move(each));
  if (outcome.taken.empty()) return;
  taken_.add(outcome.taken, ids::Taken::in_batch);
  renews_before_sending_ = true;
  settle(std::move(outcome.taken));
}

/// There is no pause before the next attempt, since nothing has been sent.
void Batch::renewed_before_sending() {
  renews_before_sending_ = false;
  const std::vector<Collision> collisions = renewal_.take();
  count(collisions);
  static_cast<void>(budget_.take_pause(write_.context_->random));
  for (const Collision& collision : collisions) {
    if (!collision.again) command_.refuse(reservations_->give_up(collision));
  }
}

// ---- numbers of sequences ---------------------------------------------------------------------

std::size_t Batch::most_at_once() const {
  const bool is_alone = turns_ ? turns_->is_alone(progress_) : repeated_.is_alone();
  return is_alone ? 1 : std::numeric_limits<std::size_t>::max();
}

/// Asks the server, by an insert of the first statement that cannot succeed. It costs no write, so
/// that nobody waits for the secondaries twice. Servers before 6.0 have another question.
Action Batch::ask_whether_executed() {
  turns_->asked();
  if (is_unsure()) return ask_which_are_executed(progress_.todo());
  fields_.clear();
  append_fields_of_question(write_.context_->random, fields_);
  const WritePart question{progress_.todo().first(1),      &*options_,         false,
                           budget_.time_left(write_.now_), write_.request_id_, fields_.view()};
  if (!command_.emit(question, *write_.workspace_, write_.message_)) return action::Close{};
  if (!write_.fits()) return fail(too_large());
  return action::Send{&write_.message_, original()};
}

/// Any answer but the expected error leaves it open. So does that of a server before 6.0, which
/// does not know the field.
Batch::Next Batch::told_whether_executed(const wire::OpMsgView& message) {
  if (question_) {
    turns_->told(told_which(message));
    return std::nullopt;
  }
  const auto reply = command_.read(message.body(), 1);
  if (!reply) return action::Close{};
  if (reply->ok && !command_.adds_up(*reply, *options_, progress_.todo().first(1))) {
    return action::Close{};
  }
  const bool is_refused = reply->ok && !reply->errors.empty() &&
                          reply->errors.front().code == ErrorCode::collection_uuid_mismatch;
  turns_->told(is_refused);
  return std::nullopt;
}

/// The fields that the next command has beside the client's, or in their place; empty: none.
Bytes Batch::own_fields() {
  const bool in_turn = turns_ && options_ && !options_->in_transaction;
  if (!in_turn) return {};
  fields_.clear();
  bson::Scope all(fields_);
  turns_->append_fields(progress_, fields_);
  all.close();
  return fields_.view();
}

/// Goes on with the statements behind one that keeps its error. If it keeps it because others take
/// each number first, they would do so again, and a driver that repeats the batch must find these
/// statements untried.
Batch::Next Batch::go_past(std::span<const Collision> collisions,
                           std::span<const std::int32_t> rest) {
  const bool is_last = rest.empty() && progress_.todo().empty();
  const Assignment* sequence =
      collisions.empty() || is_last ? nullptr : turns_->sequence_in(collisions.front());
  if (sequence != nullptr) {
    const ids::Error error{ids::Errc::unavailable, "others take each number first"};
    return fail(no_values(client(), *sequence, error));
  }
  progress_.repeat(rest);
  done_ = progress_.todo().empty();
  return std::nullopt;
}

// ---- replies ---------------------------------------------------------------------------------

Batch::Next Batch::fetch() {
  if (write_.request_.command.kind != WriteKind::bulk_write) return std::nullopt;
  switch (results_.add(*write_.reply_)) {
    case BulkResults::Next::malformed:
      return action::Close{};
    case BulkResults::Next::more:
      begin_question();
      results_.ask(client(), write_.request_id_, write_.message_);
      return action::Send{&write_.message_, {}};
    case BulkResults::Next::done:
      break;
  }
  if (const auto joined = results_.joined()) {
    write_.reply_ = joined;
    is_joined_ = true;
  }
  return std::nullopt;
}

Batch::Next Batch::take() {
  const wire::OpMsgView& message = *write_.reply_;
  if (question_) return send_missing(told_which(message));
  failed_whole_ = false;
  // The batch does not go on after a reply that it cannot understand. The client gets the reply if
  // there was only one command.
  const bool only = progress_.is_only_command() && !is_joined_;
  const Action otherwise = only ? Action{action::Relay{}} : Action{action::Close{}};
  const auto reply = command_.read(message.body(), progress_.out().size());
  if (!reply) return otherwise;
  if (!reply->ok) return options_ ? take_failure(message, reply->code) : otherwise;
  if (!options_) return take_only_reply(message, *reply);
  if (reply->retried > write_.statements_) return otherwise;
  if (progress_.is_only_command() && write_.loses_writes() && is_unsure_insert() &&
      std::ranges::any_of(reply->errors, RepeatedInsert::is_invalid)) {
    options_->stmt_ids = RepeatedInsert::shifted(*reply, *options_, write_.statements_);
  }
  if (may_be_mixed_up(*reply) && !has_expired()) {
    return ask_which_are_executed(repeated_.doubt(message, *reply, progress_.out()));
  }
  if (!command_.adds_up(*reply, *options_, progress_.out())) return otherwise;
  return take_reply(message, *reply);
}

/// Handles a command that failed as a whole.
Batch::Next Batch::take_failure(const wire::OpMsgView& message, std::int64_t code) {
  const auto out = progress_.out();
  const bool duplicate = code == ErrorCode::duplicate_key && out.size() == 1;
  const bool denied = stores_nothing(code) || (duplicate && denies(message.body()));
  if (denied && duplicate) note_undone(out.front());
  if (stores_nothing(code) || (write_.guards_ && write_.guards_->is_moved(code))) note_refusal();
  if (turns_) turns_->failed(denied && !options_->in_transaction);
  if (const auto next = duplicate ? failed_for_values(message) : std::nullopt) return *next;
  if (const auto next = failed_for_guards(message, code)) return *next;
  if (const auto next = failed_for_numbers(message, code)) return next;
  if (progress_.is_only_command()) return action::Relay{};
  write_.workspace_->reply.clear();
  const auto append = progress_.commands() == 1 ? append_readdressed : append_failure_of_later;
  append(message, client_request_id(), write_.workspace_->reply);
  return action::Reply{write_.workspace_->reply.view()};
}

/// A duplicate of its only statement. Nothing if no fresh value would cure it, or if the client
/// should get the server's answer.
std::optional<Batch::Next> Batch::failed_for_values(const wire::OpMsgView& message) {
  std::vector<Collision> collisions{taken_.collision_of(progress_.out().front(), message.body())};
  const Collision& collision = collisions.front();
  if (collision.given.empty()) return std::nullopt;
  only_ = progress_.is_only_command();
  if (options_->in_transaction) {
    const auto end = aborted(message, collision);
    if (!end) return std::nullopt;
    return std::optional<Next>(std::in_place, end);
  }
  taken_.add(collisions, ids::Taken::in_batch);
  if (turns_) turns_->taken(collision);
  failed_whole_ = true;
  failure_.clear();
  failure_.append(message.message());
  settle(std::move(collisions));
  return Next();
}

/// The collection is another one, or the server does not know `collectionUUID`: all go again.
std::optional<Batch::Next> Batch::failed_for_guards(const wire::OpMsgView& message,
                                                    std::int64_t code) {
  if (write_.named().empty() || options_->in_transaction) return std::nullopt;
  if (write_.guards_->is_moved(code)) {
    write_.guards_->moved(write_.now_);
    if (write_.guards_->moves_too_often(write_.now_)) return moved_too_often();
  } else if (rejects("collectionUUID", message, code)) {
    write_.guards_->takes_no_uuid();
  } else {
    return std::nullopt;
  }
  again_.assign(progress_.out().begin(), progress_.out().end());
  return Next();
}

/// The server does not know `stmtIds`, with which more than one command would go.
Batch::Next Batch::failed_for_numbers(const wire::OpMsgView& message, std::int64_t code) {
  if (!rejects("stmtIds", message, code) || !options_->has_txn_number || turns_) return {};
  if (progress_.commands() > 1) return keep_errors(progress_.out(), RetryBound::server);
  if (progress_.is_only_command()) return std::nullopt;
  progress_.join();
  return send_whole();
}

Batch::Next Batch::take_reply(const wire::OpMsgView& message, const WriteReply& reply) {
  retried_ = retried_ || reply.retried > 0;
  command_.add(message, reply, progress_.out());
  note_fates(reply);
  std::vector<Collision> collisions = taken_.collisions_in(reply.errors, progress_.out());
  moved_ = moved_in(reply.errors);
  if (write_.guards_ && reply.n.value_or(0) > 0) write_.guards_->stood();
  if (!moved_.empty()) write_.guards_->moved(write_.now_);
  if (options_->in_transaction && !(collisions.empty() && moved_.empty())) {
    if (turns_) turns_->lost();
    const auto end = moved_.empty() ? aborted(message, collisions.front())
                                    : run_again(message, write_.guards_->rule(), kMoved);
    if (end) return end;
    moved_.clear();
  }
  only_ = progress_.is_only_command() && !is_joined_;
  replaces_errors_ = replaces_errors_ || command_.replaces_errors(reply, progress_.out());
  progress_.answered(first_failed(reply));
  if (turns_) {
    const bool may_be_held = std::ranges::any_of(progress_.tried(), [&](std::int32_t each) {
      return !command_.inserted(each) && may_hold_value(each, reply);
    });
    turns_->answered({message, reply, progress_, *options_, collisions, !moved_.empty(),
                      is_unsure(), write_.loses_writes(), may_be_held});
  }
  const std::size_t failed = options_->stops() ? 0 : reply.errors.size();
  if (progress_.tried().size() > failed) budget_.progress(write_.now_);
  repeats_.tried(progress_.tried(), command_.replies().errors());
  if (reply.errors.empty()) went_well();
  if (options_->in_transaction) return std::nullopt;
  taken_.add(collisions, ids::Taken::in_batch);
  settle(std::move(collisions));
  return std::nullopt;
}

/// Handles the reply to a command without options_, of which nothing is sent again.
Action Batch::take_only_reply(const wire::OpMsgView& message, const WriteReply& reply) {
  // To a write with {w: 0}, MongoDB 4.4 answers without n.
  const bool is_short = reply.errors.empty() && reply.n &&
                        *reply.n < static_cast<std::int64_t>(progress_.out().size());
  if (is_short && write_.loses_writes() && write_.request_.command.kind == WriteKind::insert) {
    repeated_.note_lost();
    return fail(some_are_lost());
  }
  if (!command_.replaces_errors(reply, progress_.out())) return action::Relay{};
  command_.add(message, reply, progress_.out());
  return finish(report());
}

/// Handles a duplicate of a generated value that has aborted the client's transaction. Returns the
/// answer that tells the client to run the transaction again; nothing if the client should get the
/// server's answer.
Batch::Next Batch::aborted(const wire::OpMsgView& message, const Collision& collision) {
  taken_.add({&collision, 1}, ids::Taken::in_transaction);
  return run_again(message, assignment(collision.given.front()), "is taken");
}

/// The answer that tells the client to run the transaction again; nothing if it should get the
/// server's. That which says that a collection has moved is nothing for drivers.
Batch::Next Batch::run_again(const wire::OpMsgView& message, const Assignment& target,
                             const std::string& why) {
  RuleOutcomes& outcomes = *target.outcomes;
  const bool transient = target.rule->in_transaction == InTransaction::transient &&
                         outcomes.may_run_again(write_.now_, target.attempts());
  ++(transient ? outcomes.transient : outcomes.surfaced);
  if (!transient && moved_.empty()) return std::nullopt;
  write_.workspace_->reply.clear();
  append_undone_reply(message, client_request_id(),
                      {transient ? ErrorCode::write_conflict : ErrorCode::operation_failed,
                       "mongo-idproxy: the value generated for field '" + target.rule->field +
                           "' of " + target.ns + " " + why + "; run the transaction again",
                       transient ? kTransientTransactionError : std::string_view()},
                      write_.workspace_->reply);
  return action::Reply{write_.workspace_->reply.view()};
}

/// Tells the rules whose values have been stored.
void Batch::went_well() const {
  std::vector<std::size_t> stored;
  std::vector<bool> any(plan_.size());
  for (std::size_t at = 0; at < given_.given.size(); ++at) {
    if (!command_.inserted(given_.given[at].statement)) continue;
    stored.push_back(at);
    any[given_.given[at].assignment] = true;
  }
  for (std::size_t i = 0; i < any.size() && options_->in_transaction; ++i) {
    if (any[i]) plan_[i].outcomes->went_well();
  }
  by_source(plan_, given_, stored, [](std::size_t, ids::Source& source, auto) {
    if (source.in_a_row()) source.went_well();
  });
}

// ---- what becomes of the statements ------------------------------------------------------------

/// Those of the command are on their way, so that their values may be stored.
void Batch::note_sent() {
  std::vector<std::size_t> values(plan_.size());
  given_.each_of(progress_.out(), [&](std::size_t at) {
    const Given& each = given_.given[at];
    const bool is_first = fates_[static_cast<std::size_t>(each.statement)] == Fate::unsent;
    values[each.assignment] += is_first ? 1 : 0;
  });
  for (std::size_t i = 0; i < values.size(); ++i) {
    plan_[i].outcomes->sent(values[i], write_.acknowledged_, write_.now_);
    write_.facts_.values_sent += values[i];
  }
  for (const std::int32_t each : progress_.out()) {
    fates_[static_cast<std::size_t>(each)] = Fate::sent;
  }
}

/// Not with `multi: true`: it may have changed documents before it failed.
void Batch::note_undone(std::int32_t statement) {
  if (!given_.is_multi(statement)) fates_[static_cast<std::size_t>(statement)] = Fate::undone;
}

/// The server has refused the command before it executed any statement; but it may have executed
/// one before, of which it gave an answer in doubt.
void Batch::note_refusal() {
  if (repeated_.was_in_doubt()) return;
  for (const std::int32_t each : progress_.out()) {
    fates_[static_cast<std::size_t>(each)] = Fate::undone;
  }
}

/// True if the statement, which has inserted nothing, may have given its value to a document that
/// it found.
bool Batch::may_hold_value(std::int32_t statement, const WriteReply& reply) const {
  return given_.may_be_used_by_found(statement) && reply.modified.value_or(1) != 0;
}

/// What the reply, which has been merged and accounts for every statement, proves: a statement has
/// stored nothing if its error says so, or if it found a document that did not take its value.
void Batch::note_fates(const WriteReply& reply) {
  if (!options_->acknowledged || may_be_mixed_up(reply)) return;
  const auto out = progress_.out();
  auto error = reply.errors.begin();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool failed = error != reply.errors.end() && static_cast<std::size_t>(error->index) == i;
    const bool is_undone = failed ? denies((error++)->document)
                                  : !command_.inserted(out[i]) && !may_hold_value(out[i], reply);
    if (failed && options_->stops()) return note_stop(is_undone, out.subspan(i));
    if (is_undone) note_undone(out[i]);
  }
}

/// The server has stopped at the first of these statements, and undone the transaction that they
/// are in. If its error leaves open whether it is stored, it is not known what became of the
/// others, either: several may be one command of a mongos to its shard.
void Batch::note_stop(bool is_undone, std::span<const std::int32_t> tail) {
  if (!is_undone) return;
  std::ranges::for_each(tail, [this](std::int32_t each) { note_undone(each); });
  if (!options_->in_transaction) return;
  for (std::int32_t each = 0; each < static_cast<std::int32_t>(fates_.size()); ++each) {
    if (fates_[static_cast<std::size_t>(each)] == Fate::sent) note_undone(each);
  }
}

/// True if an earlier attempt of the client has stored the statement with other values.
bool Batch::was_replayed(std::int32_t statement) const {
  return options_ && options_->has_txn_number && !options_->in_transaction &&
         command_.replies().retried(options_->number_of(statement));
}

/// After a driver's second attempt, as far as the server tells of it (retriedStmtIds), all that was
/// sent counts as stored. A server before 6.0 does not tell; but each attempt has values of its
/// own, and those of a statement that failed or found its document are stored by none.
void Batch::give_back() const {
  const auto fate = [this](auto each) { return fates_[static_cast<std::size_t>(each)]; };
  if (reservations_) {
    reservations_->not_stored(
        [&](auto each) { return fate(each) != Fate::sent || was_replayed(each); });
  }
  rewrite::give_back(plan_, given_, [&](std::size_t at) {
    const Fate its = fate(given_.given[at].statement);
    return !taken_.contains(at) && (its == Fate::unsent || (its == Fate::undone && !retried_));
  });
}

// ---- sending again ---------------------------------------------------------------------------

/// Finds out which of them may go again, and which values they need for that.
void Batch::settle(std::vector<Collision> collisions) {
  if (!collisions.empty()) budget_.start(write_.now_);
  for (Collision& collision : collisions) {
    const auto bound = forbids(collision);
    collision.again = !bound;
    if (bound) collision.ended_by = *bound;
  }
  const std::vector<std::size_t> others = doubtful(collisions);
  renewal_.start(std::move(collisions), others);
}

/// With `multi: true`, a duplicate may come from a document that the statement has found and
/// changed like others before it. But it does not change a field that gets a value, so that in an
/// index on that field alone only the insert can collide: it has found no document.
std::optional<RetryBound> Batch::forbids(const Collision& collision) {
  if (given_.is_multi(collision.statement) && !collision.on_field_alone) return RetryBound::multi;
  std::vector<const Assignment*> taken;
  taken.reserve(collision.given.size());
  for (const std::size_t given : collision.given) taken.push_back(&assignment(given));
  return budget_.forbids(taken, repeats_.of(collision.statement), write_.now_);
}

/// After a collision in an ordered batch, the values of the statements behind it that come from the
/// same source, if many of them must be taken, too: sent as they are, each of them would cost a
/// command. Reserved values are not: their reservations say that they are free.
std::vector<std::size_t> Batch::doubtful(std::span<const Collision> collisions) {
  const auto tail = progress_.tail();
  if (tail.size() < 2 || collisions.empty() || !collisions.front().again || reservations_) {
    return {};
  }
  const std::size_t tried = progress_.tried().size() + 1;
  std::vector<bool> doubts(plan_.size());
  for (const std::size_t at : collisions.front().given) {
    const auto& source = assignment(at).source;
    doubts[given_.given[at].assignment] =
        source != nullptr && source->doubts(tried, tail.size() - 1);
  }
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < given_.given.size(); ++at) {
    const Given& given = given_.given[at];
    const bool is_untried = std::ranges::binary_search(tail.subspan(1), given.statement);
    if (doubts[given.assignment] && is_untried) found.push_back(at);
  }
  return found;
}

std::optional<Need> Batch::renews() {
  auto need = renewal_.draw();
  if (need) {
    need->patience = budget_.patience(*need->assignment->rule, *need->source, write_.now_);
  }
  return need;
}

Batch::Next Batch::decide() {
  if (options_->in_transaction) {
    done_ = !command_.replies().errors().empty() || progress_.todo().empty();
    return std::nullopt;
  }
  const std::vector<Collision> collisions = renewal_.take();
  count(collisions);
  const std::vector<std::int32_t> moved = std::exchange(moved_, {});
  if (!moved.empty() && write_.guards_->moves_too_often(write_.now_)) return moved_too_often();
  if (!again_.empty()) return go_again(std::exchange(again_, {}));
  if (failed_whole_) {
    if (collisions.front().again) return go_again(progress_.out());
    return relay_failure();
  }
  if (const auto tail = progress_.tail(); !tail.empty()) {
    const bool goes_again = !collisions.empty() && collisions.front().again;
    if (goes_again || !moved.empty()) return go_again(tail);
    if (!options_->ordered) return go_past(collisions, tail.subspan(1));
    done_ = true;
    return std::nullopt;
  }
  std::vector<std::int32_t> again = moved;
  for (const Collision& collision : collisions) {
    if (collision.again) again.push_back(collision.statement);
  }
  std::ranges::sort(again);
  if (!again.empty()) return go_again(again);
  done_ = progress_.todo().empty();
  return std::nullopt;
}

void Batch::count(std::span<const Collision> collisions) {
  for (const Collision& collision : collisions) {
    const Assignment& rule = assignment(collision.given.front());
    if (collision.again) {
      repeats_.add(collision.statement, rule);
    } else {
      repeats_.give_up(rule, collision.ended_by);
    }
  }
}

/// Sends the statements again after the backoff.
Batch::Next Batch::go_again(std::span<const std::int32_t> statements) {
  progress_.repeat(statements);
  const auto pause = budget_.take_pause(write_.context_->random);
  return pause.count() > 0 ? Next(action::Wait{pause}) : std::nullopt;
}

// ---- servers before 6.0 ----------------------------------------------------------------------

/// True if the client may repeat an earlier attempt, and the server does not say what that has
/// stored: then other values are stored than those that are given now.
bool Batch::is_unsure() const {
  return options_ && options_->has_txn_number && !options_->in_transaction &&
         !(write_.memory_ == nullptr || write_.memory_->tells_retried());
}

/// The same, of an insert whose statements the server may execute in any number.
bool Batch::is_unsure_insert() const {
  return is_unsure() && write_.request_.command.kind == WriteKind::insert && !options_->stops();
}

bool Batch::may_be_mixed_up(const WriteReply& reply) const {
  return is_unsure_insert() && options_->acknowledged && !turns_ &&
         repeated_.may_be_mixed_up(reply, progress_.out().size(), write_.loses_writes());
}

/// Goes on after a reply that may be mixed up.
Batch::Next Batch::send_missing(const std::optional<std::vector<std::int32_t>>& executed) {
  using Kind = RepeatedInsert::Verdict::Kind;
  const auto message = wire::OpMsgView::parse(repeated_.reply());
  const auto reply = command_.read(message->body(), progress_.out().size());
  const auto verdict = repeated_.judge(executed, *reply, progress_.out());
  if (verdict.kind == Kind::believe) return take_reply(*message, *reply);
  if (verdict.kind == Kind::give_up) return fail(some_are_lost());
  command_.replies().add_stored(verdict.stored);
  only_ = false;
  again_ = verdict.statements;
  return std::nullopt;
}

void Batch::begin_question() {
  if (progress_.commands() == 0) return;
  write_.request_id_ = static_cast<std::int32_t>(write_.workspace_->next_request_id++);
}

Action Batch::ask_which_are_executed(std::span<const std::int32_t> statements) {
  begin_question();
  question_.emplace(statements);
  question_->emit(
      {&client(), &*options_, command_.ns(), write_.request_id_, budget_.time_left(write_.now_)},
      write_.message_);
  return action::Send{&write_.message_, {}};
}

std::optional<std::vector<std::int32_t>> Batch::told_which(const wire::OpMsgView& message) {
  return std::exchange(question_, std::nullopt)->read(message);
}

// ---- answering the client --------------------------------------------------------------------

Batch::Next Batch::ask_what_is_stored() {
  const bool reports =
      std::ranges::any_of(plan_, [](const Assignment& each) { return each.rule->report; });
  if (!is_unsure() || !reports || !options_->acknowledged) return std::nullopt;
  std::vector<ids::TypedValue> ids = command_.ids();
  if (ids.empty() || ids.size() > StoredLook::kMost) return std::nullopt;
  begin_question();
  stored_.emplace(std::move(ids));
  stored_->emit({&client(), command_.ns(), write_.request_id_, budget_.time_left(write_.now_)},
                plan_, write_.message_);
  return action::Send{&write_.message_, {}};
}

/// Answers with a duplicate that the server reported as an error of the whole command.
Action Batch::relay_failure() {
  if (only_ && !renewal_.has_asked()) return action::Relay{};
  write_.workspace_->reply.clear();
  append_readdressed(*wire::OpMsgView::parse(failure_.view()), client_request_id(),
                     write_.workspace_->reply);
  return action::Reply{write_.workspace_->reply.view()};
}

Action Batch::answer() {
  const std::vector<Assigned> assigned = report();
  const bool has_asked = stored_ || repeated_.was_in_doubt() || renewal_.has_asked();
  if (has_asked || !only_ || replaces_errors_ || !assigned.empty()) {
    return finish(assigned);
  }
  return action::Relay{};
}

Action Batch::finish(std::span<const Assigned> assigned) {
  write_.workspace_->reply.clear();
  if (command_.replies().empty()) {
    append_readdressed(*wire::OpMsgView::parse(failure_.view()), client_request_id(),
                       write_.workspace_->reply);
  } else {
    command_.append_reply(assigned, write_.workspace_->reply);
  }
  return action::Reply{write_.workspace_->reply.view()};
}

/// The values to report, which are those that are stored now: not those of statements that failed,
/// were not reached, found a document, or were executed with other values by an earlier command.
std::vector<Assigned> Batch::report() const {
  std::vector<Assigned> report;
  const auto& errors = command_.replies().errors();
  if (!options_ || !options_->acknowledged || (options_->in_transaction && !errors.empty())) {
    return report;
  }
  const bool stops = options_->ordered && !errors.empty();
  const bool unsure = is_unsure();
  for (const Given& given : given_.given) {
    const Rule& rule = *plan_[given.assignment].rule;
    if (!rule.report || errors.contains(given.statement)) continue;
    if (stops && given.statement > errors.begin()->first) break;
    if (!command_.inserted(given.statement)) continue;
    if (unsure) {
      const auto value = stored_ ? stored_->value(given.statement, rule.field) : std::nullopt;
      if (value) report.push_back({given.statement, rule.field, value->type, value->value});
      continue;
    }
    if (options_->has_txn_number &&
        command_.replies().retried(options_->number_of(given.statement))) {
      continue;
    }
    const ids::Values& values = given_.values[given.assignment];
    report.push_back({given.statement, rule.field, values.type(), values[given.value]});
  }
  return report;
}

}  // namespace idproxy::rewrite
