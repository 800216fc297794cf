#include "rewrite/batch.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "rewrite/find_and_modify.hpp"

namespace idproxy::rewrite {
namespace {

Stops stops_of(const std::optional<WriteOptions>& options) {
  if (!options || options->in_transaction) return Stops::in_transaction;
  return options->stops() ? Stops::at_errors : Stops::never;
}

std::optional<WriteOptions> options_of(const WriteRequest& write, const GivenValues& given,
                                       std::size_t statements) {
  auto options = write.command.divisible(statements);
  if (options) options->in_turn = needs_turn(*write.plan, given);
  return options;
}

std::unique_ptr<Operation> operation_of(const WriteRequest& write, const GivenValues& given,
                                        std::vector<RefusedDocument> refused) {
  if (!write.command.in_batch()) {
    return std::make_unique<FindAndModify>(write, given, std::move(refused));
  }
  return std::make_unique<Operation>(write, given, std::move(refused));
}

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
      operation_(operation_of(write.request_, given_, std::move(write.refused_))),
      command_(*operation_),
      options_(options_of(write.request_, given_, write.statements_)),
      is_unsure_(write.acknowledged_ && options_ && options_->may_be_repeated() &&
                 write.memory_ != nullptr && !write.memory_->tells_retried()),
      progress_(write.statements_, stops_of(options_)),
      fates_(given_, write.statements_, write.sent_),
      budget_(options_ ? options_->max_time_ms : std::nullopt, write.started_),
      taken_(plan_, given_, command_.ns(), &write.request_),
      fresh_(plan_, given_, budget_, repeats_, taken_) {
  if (write.sent_) progress_.sent_whole();
  if (!write.acknowledged_) options_.reset();
  if (options_ && options_->in_turn) {
    turns_.emplace(given_, command_, write.statements_, *options_, is_unsure_, write.memory_);
  }
  if (!write.sent_ && command_.kind() == WriteKind::insert && plan_.reserves()) {
    reservations_ = std::make_unique<ReserveStage>(
        write.request_, given_, command_.refused(),
        [this](ReserveStage::Outcome outcome) { reserved(std::move(outcome)); });
  }
}

void Batch::tell(ExchangeFacts& facts) {
  const auto& [rule, ended_by] = repeats_.given_up();
  if (rule != nullptr) facts.given_up = {rule->ns, rule->rule, rule->attempts(), ended_by};
  if (repeated_.has_lost()) facts.lost_writes = &plan_.front();
  facts.may_wait = turns_ && turns_->may_wait();
}

// ---- before a command --------------------------------------------------------------------------

/// Values that are reserved by others are renewed. There is no pause before the next attempt, since
/// nothing has been sent.
void Batch::reserved(ReserveStage::Outcome outcome) {
  for (RefusedDocument& each : outcome.refused) command_.refuse(std::move(each));
  if (outcome.taken.empty()) return;
  fresh_.settle(std::move(outcome.taken), nullptr, write_.now_, [this] {
    for (const Collision& collision : fresh_.settled()) {
      if (!collision.again) command_.refuse(reservations_->give_up(collision));
    }
    static_cast<void>(budget_.take_pause(write_.context_->random));
  });
}

Batch::Step Batch::keep_errors(std::span<const std::int32_t> next, RetryBound ended_by) {
  if (!has_begun() || next.empty()) return std::nullopt;
  const bool others_count = turns_ && !options_->ordered && next.size() > 1;
  // A value that could not be reserved may have been renewed before the statement was ever sent.
  const bool was_sent = !reservations_ || command_.replies().errors().contains(next.front());
  const bool has_collided = was_sent && repeats_.contains(next.front());
  if (!has_collided || !progress_.only_repeats() || others_count) return std::nullopt;
  repeats_.abandon(next, ended_by);
  return finish(report());
}

// ---- sending -----------------------------------------------------------------------------------

Action Batch::send() {
  if (has_expired()) {
    // If all remaining statements have collided, they keep their errors.
    if (const auto end = keep_errors(progress_.todo(), RetryBound::max_time)) return *end;
    return write_.fail({ErrorCode::max_time_ms_expired, "operation exceeded time limit"});
  }
  if (!options_) {
    progress_.sent_whole();
    return send_whole();
  }
  if (progress_.begins_part()) {
    budget_.end();
    repeated_.begin_part();
  }
  const bool is_alone = turns_ ? turns_->is_alone(progress_) : repeated_.is_alone();
  progress_.send(is_alone ? 1 : std::numeric_limits<std::size_t>::max());
  if (progress_.commands() > 1) begin_question();
  while (const auto fit = emit_part()) {
    if (*fit == progress_.out().size()) return send_written();
    progress_.shorten(*fit);
  }
  return action::Close{};
}

/// Writes the next command. Returns how many of its statements fit into it.
std::optional<std::size_t> Batch::emit_part() {
  if (turns_) turns_->number(progress_.out());
  // Its only statement may have been sent without upsert, and found nothing.
  const bool has_begun = write_.without_upsert_ == WriteState::WithoutUpsert::found_nothing;
  const bool first = progress_.commands() == 1 && !has_begun;
  const Bytes instead = turns_ ? turns_->fields(progress_) : Bytes();
  WritePart part{progress_.out(),    &*options_, first,         time_left(),
                 write_.request_id_, instead,    write_.named()};
  part.numbered = !has_begun;
  return command_.emit(part, *write_.workspace_, write_.message_);
}

/// Sends all statements in one command, with nothing left to decide.
Action Batch::send_whole() {
  options_.reset();
  const WritePart whole{progress_.out(),    nullptr, true,          std::nullopt,
                        write_.request_id_, {},      write_.named()};
  if (!command_.emit(whole, *write_.workspace_, write_.message_)) return action::Close{};
  return send_written();
}

Action Batch::send_written() {
  if (!write_.fits()) return write_.fail(too_large());
  for (Stage* stage : write_.stages_) {
    if (stage != nullptr) stage->sent(progress_.out());
  }
  std::vector<std::size_t> values(plan_.size());
  given_.each_of(progress_.out(), [&](std::size_t at) {
    const Given& each = given_.given[at];
    values[each.assignment] += fates_.of(each.statement) == Fates::Fate::unsent ? 1U : 0U;
  });
  for (std::size_t i = 0; i < values.size(); ++i) {
    plan_[i].outcomes->sent(values[i], write_.acknowledged_, write_.now_);
    write_.facts_.values_sent += values[i];
  }
  fates_.sent(progress_.out());
  return action::Send{&write_.message_, client().message()};
}

// ---- replies ---------------------------------------------------------------------------------

Batch::Step Batch::fetch() {
  // Without options the client gets this very reply, and fetches the other results itself.
  if (write_.request_.command.kind != WriteKind::bulk_write || !options_) return std::nullopt;
  const auto next = results_.add(*write_.reply_);
  if (next == BulkResults::Next::malformed) return action::Close{};
  if (next == BulkResults::Next::more) {
    begin_question();
    results_.ask(client(), write_.request_id_, write_.message_);
    return action::Send{&write_.message_, {}};
  }
  if (const auto joined = results_.joined()) {
    write_.reply_ = joined;
    is_joined_ = true;
  }
  return std::nullopt;
}

Batch::Step Batch::take() {
  const wire::OpMsgView& message = *write_.reply_;
  if (question_) return send_missing();
  outcome_ = {};
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
    begin_question();
    question_.emplace(repeated_.doubt(message, *reply, progress_.out()));
    question_->emit({&client(), command_.ns(), write_.request_id_, time_left()}, *options_,
                    write_.message_);
    return action::Send{&write_.message_, {}};
  }
  if (!command_.adds_up(*reply, *options_, progress_.out())) return otherwise;
  return take_reply(message, *reply);
}

/// A command that failed as a whole.
Batch::Step Batch::take_failure(const wire::OpMsgView& message, std::int64_t code) {
  const auto out = progress_.out();
  const bool is_duplicate = code == ErrorCode::duplicate_key && out.size() == 1;
  const bool is_denied = stores_nothing(code) || (is_duplicate && denies(message.body()));
  if (is_denied && is_duplicate) fates_.failed(out.front());
  // The server may have executed a command before, of which it gave an answer in doubt.
  const bool is_refused =
      stores_nothing(code) || (write_.guards_ && write_.guards_->is_moved(code));
  if (is_refused && !repeated_.was_in_doubt()) fates_.refused(out);
  std::optional<Collision> collision;
  if (is_duplicate) collision = taken_.collision_of(out.front(), message.body());
  if (collision && collision->given.empty()) collision.reset();
  const Failure failure{message,     code,
                        write_.now_, options_->in_transaction,
                        is_denied,   collision ? &*collision : nullptr};
  std::optional<Next> cure;
  for (Stage* stage : write_.stages_) {
    auto its = stage == nullptr ? std::nullopt : stage->failed(failure);
    if (!cure) cure = std::move(its);
  }
  if (cure && cure->rule != nullptr) return write_.no_values_for(*cure->rule, cure->error);
  if (cure && collision) {
    // Unless there are no fresh values, nobody sees this reply.
    outcome_.is_only = progress_.is_only_command();
    outcome_.failed_whole = true;
    failure_.clear();
    failure_.append(message.message());
  } else if (cure) {
    outcome_.again.assign(out.begin(), out.end());
  }
  if (cure) return std::nullopt;
  if (collision) {
    if (const auto end = aborted(message, &*collision)) return end;
  }
  if (rejects("stmtIds", message, code) && options_->has_txn_number && !turns_) {
    if (const auto next = without_numbers()) return next;
  }
  if (progress_.is_only_command()) return action::Relay{};
  return readdress(message,
                   progress_.commands() == 1 ? append_readdressed : append_failure_of_later);
}

/// The server does not know `stmtIds`, with which more than one command would go.
Batch::Step Batch::without_numbers() {
  if (progress_.commands() > 1) return keep_errors(progress_.out(), RetryBound::server);
  if (progress_.is_only_command()) return std::nullopt;
  progress_.join();
  return send_whole();
}

Batch::Step Batch::take_reply(const wire::OpMsgView& message, const WriteReply& reply) {
  const auto out = progress_.out();
  outcome_.is_only = progress_.is_only_command() && !is_joined_;
  retried_ = retried_ || reply.retried > 0;
  replaces_errors_ = replaces_errors_ || command_.replaces_errors(reply, out);
  command_.replies().add(message, reply, out);
  if (options_->acknowledged && !may_be_mixed_up(reply)) {
    fates_.answered(reply, out, *options_, command_);
  }
  std::optional<std::size_t> first_failed;
  if (!reply.errors.empty()) first_failed = static_cast<std::size_t>(reply.errors.front().index);
  progress_.answered(first_failed);
  const auto tried = progress_.tried();
  std::vector<Collision> collisions = taken_.collisions_in(reply.errors, out);
  const bool may_be_held = turns_ && std::ranges::any_of(tried, [&](std::int32_t each) {
                             return !command_.inserted(each) && fates_.may_be_held(each, reply);
                           });
  Executed executed{message,    reply, out, tried, write_.now_, collisions, write_.loses_writes(),
                    may_be_held};
  for (Stage* stage : write_.stages_) {
    if (stage != nullptr) stage->executed(executed);
  }
  const std::size_t failed = options_->stops() ? 0 : reply.errors.size();
  if (tried.size() > failed) budget_.progress(write_.now_);
  repeats_.tried(tried, command_.replies().errors());
  if (reply.errors.empty()) went_well();
  if (options_->in_transaction) {
    if (!executed.moved.empty()) return aborted(message, nullptr);
    return collisions.empty() ? std::nullopt : aborted(message, &collisions.front());
  }
  outcome_.moved = std::move(executed.moved);
  // Reserved values are free: their reservations say so.
  fresh_.settle(std::move(collisions), reservations_ ? nullptr : &progress_, write_.now_);
  return std::nullopt;
}

/// Handles the reply to a command without options_, of which nothing is sent again.
Action Batch::take_only_reply(const wire::OpMsgView& message, const WriteReply& reply) {
  // To a write with {w: 0}, MongoDB 4.4 answers without n.
  const bool is_short = reply.errors.empty() && reply.n &&
                        *reply.n < static_cast<std::int64_t>(progress_.out().size());
  if (is_short && write_.loses_writes() && write_.request_.command.kind == WriteKind::insert) {
    repeated_.note_lost();
    return write_.fail(some_are_lost());
  }
  if (!command_.replaces_errors(reply, progress_.out())) return action::Relay{};
  command_.replies().add(message, reply, progress_.out());
  return finish(report());
}

/// Handles what has aborted the client's transaction: a duplicate of a generated value, or (null) a
/// collection that is another one. Returns the answer that tells the client to run the transaction
/// again; nothing if it should get the server's. That of a collection is nothing for drivers.
Batch::Step Batch::aborted(const wire::OpMsgView& message, const Collision* collision) {
  if (collision != nullptr) taken_.add({collision, 1}, ids::Taken::in_transaction);
  const Assignment& target =
      collision != nullptr ? fresh_.rule_of(*collision) : write_.guards_->rule();
  RuleOutcomes& outcomes = *target.outcomes;
  const bool transient = target.rule->in_transaction == InTransaction::transient &&
                         outcomes.may_run_again(write_.now_, target.attempts());
  ++(transient ? outcomes.transient : outcomes.surfaced);
  if (!transient && collision != nullptr) return std::nullopt;
  const std::string_view why =
      collision != nullptr ? "is taken"
                           : "was for a collection that has been dropped, made anew or renamed";
  write_.workspace_->reply.clear();
  append_undone_reply(
      message, client_request_id(),
      {transient ? ErrorCode::write_conflict : ErrorCode::operation_failed,
       "mongo-idproxy: the value generated for field '" + target.rule->field + "' of " + target.ns +
           " " + std::string(why) + "; run the transaction again",
       transient ? kTransientTransactionError : std::string_view()},
      write_.workspace_->reply);
  return action::Reply{write_.workspace_->reply.view()};
}

/// Tells the rules whose values have been stored.
void Batch::went_well() const {
  std::vector<Given> stored;
  std::ranges::copy_if(given_.given, std::back_inserter(stored),
                       [this](const Given& its) { return command_.inserted(its.statement); });
  for (const FromSource& its : by_source(plan_, given_, stored)) {
    if (options_->in_transaction) plan_[its.assignment].outcomes->went_well();
    if (its.source->in_a_row()) its.source->went_well();
  }
}

/// An earlier attempt of the client may have stored the statement with other values.
bool Batch::is_unstored(std::int32_t statement) const {
  return fates_.of(statement) != Fates::Fate::sent ||
         (options_ && options_->may_be_repeated() &&
          command_.replies().retried(options_->number_of(statement)));
}

/// After a driver's second attempt, as far as the server tells of it (retriedStmtIds), all that was
/// sent counts as stored. A server before 6.0 does not tell; but each attempt has values of its
/// own, and those of a statement that failed or found its document are stored by none.
bool Batch::is_unused(std::size_t given) const {
  const Fates::Fate its = fates_.of(given_.given[given].statement);
  const bool is_unused = its == Fates::Fate::unsent || (its == Fates::Fate::undone && !retried_);
  return is_unused && !taken_.contains(given);
}

// ---- sending again ---------------------------------------------------------------------------

Batch::Step Batch::decide() {
  if (options_->in_transaction) {
    done_ = !command_.replies().errors().empty() || progress_.todo().empty();
    return std::nullopt;
  }
  const std::vector<Collision> collisions = fresh_.settled();
  std::vector<std::int32_t> again = std::move(outcome_.moved);
  const bool has_moved = !again.empty();
  if (has_moved) {
    if (const auto end = write_.guards_->moves_too_often(write_.now_)) {
      progress_.repeat(again);
      return write_.no_values_for(*end->rule, end->error);
    }
  }
  if (!outcome_.again.empty()) return go_again(outcome_.again);
  const bool first_again = !collisions.empty() && collisions.front().again;
  if (outcome_.failed_whole) {
    if (first_again) return go_again(progress_.out());
    if (outcome_.is_only && !fresh_.has_asked()) return action::Relay{};
    return readdress(*wire::OpMsgView::parse(failure_.view()), append_readdressed);
  }
  if (const auto tail = progress_.tail(); !tail.empty()) {
    if (first_again || has_moved) return go_again(tail);
    if (!options_->ordered) return go_past(collisions, tail.subspan(1));
    done_ = true;
    return std::nullopt;
  }
  for (const Collision& collision : collisions) {
    if (collision.again) again.push_back(collision.statement);
  }
  std::ranges::sort(again);
  if (!again.empty()) return go_again(again);
  done_ = progress_.todo().empty();
  return std::nullopt;
}

/// Sends the statements again after the backoff.
Batch::Step Batch::go_again(std::span<const std::int32_t> statements) {
  progress_.repeat(statements);
  const auto pause = budget_.take_pause(write_.context_->random);
  return pause.count() > 0 ? Step(action::Wait{pause}) : std::nullopt;
}

/// Goes on with the statements behind one that keeps its error. If it keeps it because others take
/// each number first, they would do so again, and a driver that repeats the batch must find these
/// statements untried.
Batch::Step Batch::go_past(std::span<const Collision> collisions,
                           std::span<const std::int32_t> rest) {
  const bool is_last = rest.empty() && progress_.todo().empty();
  const Assignment* sequence =
      collisions.empty() || is_last ? nullptr : turns_->sequence_in(collisions.front());
  if (sequence != nullptr) {
    const ids::Error error{ids::Errc::unavailable, "others take each number first"};
    return write_.fail(no_values(write_.request_.command, *sequence, error));
  }
  progress_.repeat(rest);
  done_ = progress_.todo().empty();
  return std::nullopt;
}

// ---- servers before 6.0 ----------------------------------------------------------------------

/// True of an insert whose statements the server may execute in any number.
bool Batch::is_unsure_insert() const {
  return is_unsure_ && command_.kind() == WriteKind::insert && !options_->stops();
}

bool Batch::may_be_mixed_up(const WriteReply& reply) const {
  return is_unsure_insert() && options_->acknowledged && !turns_ &&
         repeated_.may_be_mixed_up(reply, progress_.out().size(), write_.loses_writes());
}

/// Goes on after a reply that may be mixed up.
Batch::Step Batch::send_missing() {
  using Kind = RepeatedInsert::Verdict::Kind;
  const auto executed = std::exchange(question_, std::nullopt)->read(*write_.reply_);
  const auto message = wire::OpMsgView::parse(repeated_.reply());
  const auto reply = command_.read(message->body(), progress_.out().size());
  const auto verdict = repeated_.judge(executed, *reply, progress_.out());
  if (verdict.kind == Kind::believe) return take_reply(*message, *reply);
  if (verdict.kind == Kind::give_up) return write_.fail(some_are_lost());
  command_.replies().add_stored(verdict.stored);
  outcome_.again = verdict.statements;
  return std::nullopt;
}

void Batch::begin_question() {
  write_.request_id_ = static_cast<std::int32_t>(write_.workspace_->next_request_id++);
}

// ---- answering the client --------------------------------------------------------------------

Batch::Step Batch::ask_what_is_stored() {
  const bool reports =
      std::ranges::any_of(plan_, [](const Assignment& each) { return each.rule->report; });
  if (!is_unsure_ || !reports || !options_->acknowledged) return std::nullopt;
  std::vector<ids::TypedValue> ids = command_.ids();
  if (ids.empty() || ids.size() > StoredQuestion::kMost) return std::nullopt;
  begin_question();
  stored_.emplace(std::move(ids));
  stored_->emit({&client(), command_.ns(), write_.request_id_, time_left()}, plan_,
                write_.message_);
  return action::Send{&write_.message_, {}};
}

Action Batch::answer() {
  const std::vector<Assigned> assigned = report();
  const bool has_asked = stored_ || repeated_.was_in_doubt() || fresh_.has_asked();
  if (has_asked || !outcome_.is_only || replaces_errors_ || !assigned.empty()) {
    return finish(assigned);
  }
  return action::Relay{};
}

Action Batch::finish(std::span<const Assigned> assigned) {
  if (command_.replies().empty()) {
    return readdress(*wire::OpMsgView::parse(failure_.view()), append_readdressed);
  }
  write_.workspace_->reply.clear();
  command_.append_reply(assigned, write_.workspace_->reply);
  return action::Reply{write_.workspace_->reply.view()};
}

Action Batch::readdress(const wire::OpMsgView& message,
                        decltype(append_readdressed)& append) const {
  write_.workspace_->reply.clear();
  append(message, client_request_id(), write_.workspace_->reply);
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
  for (const Given& given : given_.given) {
    const Rule& rule = *plan_[given.assignment].rule;
    if (!rule.report || errors.contains(given.statement)) continue;
    if (stops && given.statement > errors.begin()->first) break;
    if (!command_.inserted(given.statement)) continue;
    if (is_unsure_) {
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
