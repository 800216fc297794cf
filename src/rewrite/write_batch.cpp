#include "write_batch.hpp"

#include <algorithm>

#include "sources.hpp"
#include "unused_values.hpp"

namespace idproxy::rewrite {
namespace {

/// True if the server has refused stmtIds, the field that identifies repeated statements.
bool rejects_stmt_ids(const wire::OpMsgView& message, std::int64_t code) {
  constexpr std::int64_t kBadValue = 2;
  constexpr std::int64_t kFailedToParse = 9;
  constexpr std::int64_t kTypeMismatch = 14;
  constexpr std::int64_t kInvalidOptions = 72;
  constexpr std::int64_t kApiStrict = 323;
  constexpr std::int64_t kUnknownField = 40415;
  if (code != kBadValue && code != kFailedToParse && code != kTypeMismatch &&
      code != kInvalidOptions && code != kApiStrict && code != kUnknownField) {
    return false;
  }
  const auto errmsg = bson::find(message.body(), "errmsg");
  if (!errmsg || errmsg->type != bson::Type::string) return false;
  return errmsg->text().find("stmtIds") != std::string_view::npos;
}

/// The position in the command of the first statement with an error.
std::optional<std::size_t> first_failed(const WriteReply& reply) {
  if (reply.errors.empty()) return std::nullopt;
  return static_cast<std::size_t>(reply.errors.front().index);
}

Stops stops_of(const std::optional<WriteOptions>& options) {
  if (!options || options->in_transaction) return Stops::in_transaction;
  return options->ordered ? Stops::at_errors : Stops::never;
}

}  // namespace

WriteBatch::WriteBatch(Contents contents, BatchSent sent)
    : contents_(std::move(contents)),
      options_(divisible(contents_.command->message(), contents_.statements)),
      progress_(contents_.statements, stops_of(options_)),
      budget_(options_ ? options_->max_time_ms : std::nullopt, contents_.started),
      taken_(*contents_.plan, contents_.given, contents_.command->ns()),
      renewal_(*contents_.plan, contents_.given, taken_),
      request_id_(client_request_id()) {
  if (sent == BatchSent::whole) progress_.sent_whole();
}

std::optional<GivenUp> WriteBatch::given_up() const {
  const Assignment* given_up = repeats_.given_up();
  if (given_up == nullptr) return std::nullopt;
  return GivenUp{std::string(contents_.command->ns()), given_up->rule, given_up->attempts()};
}

// ---- sending ---------------------------------------------------------------------------------

Action WriteBatch::send(const Step& step) {
  const auto left = budget_.time_left(step.now);
  if (left && *left <= 0) return expired(step);
  if (progress_.begins_part()) budget_.end();
  progress_.send(contents_.command->fitting(contents_.given, progress_.todo()));
  const bool first = progress_.commands() == 1;
  if (!first) request_id_ = static_cast<std::int32_t>(step.workspace.next_request_id++);
  const WritePart part{progress_.out(), &*options_, first, left, request_id_};
  if (!contents_.command->emit(contents_.given, part, step.workspace, step.out)) {
    return action::Close{};
  }
  repeats_.sent(progress_.out());
  return action::Send{&step.out, original()};
}

/// Sends the client's whole command in place of a part, because the server does not support
/// stmtIds.
Action WriteBatch::send_whole(const Step& step) {
  progress_.join();
  options_.reset();
  const WritePart whole{progress_.out(), nullptr, true, std::nullopt, request_id_};
  if (!contents_.command->emit(contents_.given, whole, step.workspace, step.out)) {
    return action::Close{};
  }
  if (step.out.size() > static_cast<std::size_t>(wire::kMaxMessageSize)) {
    return fail(too_large(), step);
  }
  return action::Send{&step.out, original()};
}

/// The client's maxTimeMS is over before the next command is sent. If all remaining statements have
/// collided, they keep their errors; else the whole command fails with mongod's error for this
/// case.
Action WriteBatch::expired(const Step& step) {
  if (only_repeats(progress_.todo())) {
    repeats_.abandon(progress_.todo());
    return finish(step, report());
  }
  return fail({ErrorCode::max_time_ms_expired, "operation exceeded time limit"}, step);
}

/// True if all statements that are left of the batch have collided.
bool WriteBatch::only_repeats(std::span<const std::int32_t> next) const {
  return repeats_.contains(next.front()) && progress_.only_repeats();
}

Action WriteBatch::fail(CommandError error, const Step& step) const {
  error.repeats_write = progress_.commands() == 0 && may_repeat_write(original());
  step.workspace.reply.clear();
  const auto id = static_cast<std::int32_t>(step.workspace.next_request_id++);
  append_error_reply(original(), id, error, step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

// ---- replies ---------------------------------------------------------------------------------

Action WriteBatch::reply(const wire::OpMsgView& message, const Step& step) {
  // The batch does not go on after a reply that it cannot understand. The client gets the reply if
  // there was only one command.
  const Action otherwise =
      progress_.is_only_command() ? Action{action::Relay{}} : Action{action::Close{}};
  const std::size_t sent = progress_.out().size();
  const auto reply = contents_.command->read(message.body(), sent);
  if (!reply) return otherwise;
  if (!reply->ok) return options_ ? failed(message, reply->code, step) : otherwise;
  if (!options_) return answered_once(message, *reply, step);
  if (reply->retried > contents_.statements) return otherwise;
  if (!contents_.command->adds_up(*reply, *options_, progress_.out())) return otherwise;
  return answered(message, *reply, step);
}

/// Handles a command that failed as a whole.
Action WriteBatch::failed(const wire::OpMsgView& message, std::int64_t code, const Step& step) {
  const bool only = progress_.is_only_command();
  const bool duplicate = code == kDuplicateKey && progress_.out().size() == 1;
  if (duplicate) {
    if (const auto next = failed_duplicate(message, step)) return *next;
  }
  if (rejects_stmt_ids(message, code) && options_->has_txn_number) {
    if (progress_.commands() == 1 && !only) return send_whole(step);
    if (progress_.commands() > 1 && only_repeats(progress_.out())) {
      repeats_.abandon(progress_.out());
      return finish(step, report());
    }
  }
  const bool nothing_stored =
      stores_nothing(code) || (duplicate && contents_.given.once.empty() && denies(message.body()));
  if (only && nothing_stored) {
    give_back(*contents_.plan, contents_.given,
              [&](std::size_t at) { return !taken_.contains(at); });
  }
  if (only) return action::Relay{};
  step.workspace.reply.clear();
  const auto append = progress_.commands() == 1 ? append_readdressed : append_failure_of_later;
  append(message, client_request_id(), step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

/// Handles a command that failed as a whole because of a duplicate of its only statement. Returns
/// nothing if the duplicate is not of a generated value, or if the client should get the server's
/// answer.
std::optional<Action> WriteBatch::failed_duplicate(const wire::OpMsgView& message,
                                                   const Step& step) {
  Collision collision = taken_.collision_of(progress_.out().front(), message.body());
  if (collision.given.empty()) return std::nullopt;
  only_ = progress_.is_only_command();
  if (options_->in_transaction) return aborted(message, collision, step);
  taken_.add({&collision, 1}, ids::Taken::in_batch);
  failed_whole_ = true;
  failure_.clear();
  failure_.append(message.message());
  std::vector<Collision> collisions;
  collisions.push_back(std::move(collision));
  return decide(std::move(collisions), step);
}

Action WriteBatch::answered(const wire::OpMsgView& message, const WriteReply& reply,
                            const Step& step) {
  const bool well = reply.errors.empty();
  std::vector<Collision> collisions = taken_.collisions_in(reply.errors, progress_.out());
  if (options_->in_transaction && !collisions.empty()) {
    if (const auto again = aborted(message, collisions.front(), step)) return *again;
  }
  only_ = progress_.is_only_command();
  failed_whole_ = false;
  retried_ = retried_ || reply.retried > 0;
  replaces_errors_ = replaces_errors_ || contents_.command->replaces_errors(reply, progress_.out());
  contents_.command->add(message, reply, progress_.out());
  progress_.answered(first_failed(reply));
  repeats_.tried(progress_.tried(), contents_.command->errors());
  if (well) went_well();
  if (options_->in_transaction) {
    if (well && !progress_.todo().empty()) return send(step);
    return finish_or_relay(step);
  }
  taken_.add(collisions, ids::Taken::in_batch);
  return decide(std::move(collisions), step);
}

/// Handles the reply to a command without options_, of which nothing is sent again.
Action WriteBatch::answered_once(const wire::OpMsgView& message, const WriteReply& reply,
                                 const Step& step) {
  if (!contents_.command->replaces_errors(reply, progress_.out())) return action::Relay{};
  contents_.command->add(message, reply, progress_.out());
  return finish(step, report());
}

/// Handles a duplicate of a generated value that has aborted the client's transaction. Returns the
/// answer that tells the client to run the transaction again; nothing if the client should get the
/// server's answer.
std::optional<Action> WriteBatch::aborted(const wire::OpMsgView& message,
                                          const Collision& collision, const Step& step) {
  taken_.add({&collision, 1}, ids::Taken::in_transaction);
  const Assignment& target = assignment(collision.given.front());
  RuleOutcomes& outcomes = *target.outcomes;
  const bool transient = target.rule->in_transaction == InTransaction::transient &&
                         outcomes.may_run_again(step.now, target.attempts());
  if (!transient) {
    ++outcomes.surfaced;
    return std::nullopt;
  }
  ++outcomes.transient;
  step.workspace.reply.clear();
  append_undone_reply(
      message, client_request_id(),
      {ErrorCode::write_conflict,
       "mongo-idproxy: the value generated for field '" + target.rule->field + "' of " +
           std::string(contents_.command->ns()) + " is taken; run the transaction again",
       kTransientTransactionError},
      step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

/// Tells the rules whose values have been stored.
void WriteBatch::went_well() const {
  const GivenValues& given = contents_.given;
  std::vector<std::vector<bool>> stored(contents_.plan->size());  // by assignment and source
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i].resize(sources_of(given, i));
  for (const Given& each : given.given) {
    if (!contents_.command->inserted(each.statement)) continue;
    stored[each.assignment][source_of(given, each.assignment, each.value)] = true;
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const bool any = std::ranges::find(stored[i], true) != stored[i].end();
    if (any && options_->in_transaction) (*contents_.plan)[i].outcomes->went_well();
    for (std::size_t source = 0; source < stored[i].size(); ++source) {
      if (!stored[i][source]) continue;
      ids::DuplicateObserver* observer =
          source_at(*contents_.plan, given, i, source).duplicate_observer();
      if (observer != nullptr && observer->in_a_row()) observer->went_well();
    }
  }
}

// ---- sending again ---------------------------------------------------------------------------

Action WriteBatch::decide(std::vector<Collision> collisions, const Step& step) {
  if (!collisions.empty()) budget_.start(step.now);
  for (Collision& collision : collisions) collision.again = may_go_again(collision, step);
  renewal_.start(std::move(collisions));
  return renew(step);
}

bool WriteBatch::may_go_again(const Collision& collision, const Step& step) {
  if (std::ranges::binary_search(contents_.given.once, collision.statement)) return false;
  std::vector<const Assignment*> taken;
  taken.reserve(collision.given.size());
  for (const std::size_t given : collision.given) taken.push_back(&assignment(given));
  return budget_.allows(taken, repeats_.of(collision.statement), step.now);
}

/// Draws fresh values until done or until the store must be asked.
Action WriteBatch::renew(const Step& step) {
  const auto question = renewal_.draw();
  if (!question) return decided(step);
  return action::AskStore{
      question->strategy, question->count,
      budget_.patience(*question->assignment->rule, *question->strategy, step.now)};
}

Action WriteBatch::answered(ids::Result<ids::Grant> grant, const Step& step) {
  renewal_.answered(std::move(grant));
  return renew(step);
}

/// Acts once it is settled which statements are sent again, and with which values.
Action WriteBatch::decided(const Step& step) {
  const std::vector<Collision> collisions = renewal_.take();
  count(collisions);
  if (failed_whole_) {
    return collisions.front().again ? go_again(progress_.out(), step) : relay_failure(step);
  }
  if (const auto tail = progress_.tail(); !tail.empty()) {
    if (collisions.empty() || !collisions.front().again) return finish_or_relay(step);
    return go_again(tail, step);
  }
  std::vector<std::int32_t> again;
  for (const Collision& collision : collisions) {
    if (collision.again) again.push_back(collision.statement);
  }
  if (!again.empty()) return go_again(again, step);
  if (!progress_.todo().empty()) return send(step);
  return finish_or_relay(step);
}

void WriteBatch::count(std::span<const Collision> collisions) {
  for (const Collision& collision : collisions) {
    const Assignment& rule = assignment(collision.given.front());
    collision.again ? repeats_.add(collision.statement, rule) : repeats_.give_up(rule);
  }
}

/// Sends the statements again after the backoff.
Action WriteBatch::go_again(std::span<const std::int32_t> statements, const Step& step) {
  progress_.repeat(statements);
  const auto pause = budget_.take_pause(step.random);
  if (pause.count() > 0) return action::Wait{pause};
  return send(step);
}

// ---- answering the client --------------------------------------------------------------------

/// Answers with a duplicate that the server reported as an error of the whole command.
Action WriteBatch::relay_failure(const Step& step) {
  if (only_ && !renewal_.has_asked()) return action::Relay{};
  step.workspace.reply.clear();
  append_readdressed(*wire::OpMsgView::parse(failure_.view()), client_request_id(),
                     step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

/// Relays the reply if it needs no change.
Action WriteBatch::finish_or_relay(const Step& step) {
  const std::vector<Assigned> assigned = report();
  if (!only_ || renewal_.has_asked() || replaces_errors_ || !assigned.empty()) {
    return finish(step, assigned);
  }
  give_back_unused();
  return action::Relay{};
}

Action WriteBatch::finish(const Step& step, std::span<const Assigned> assigned) {
  give_back_unused();
  step.workspace.reply.clear();
  if (!contents_.command->has_reply()) {
    append_readdressed(*wire::OpMsgView::parse(failure_.view()), client_request_id(),
                       step.workspace.reply);
  } else {
    contents_.command->append_reply(assigned, step.workspace.reply);
  }
  return action::Reply{step.workspace.reply.view()};
}

/// The values to report, which are those that are stored now: not those of statements that failed,
/// were not reached, found a document, or were executed with other values by an earlier command.
std::vector<Assigned> WriteBatch::report() const {
  std::vector<Assigned> report;
  const auto& errors = contents_.command->errors();
  if (!options_ || !options_->acknowledged || (options_->in_transaction && !errors.empty())) {
    return report;
  }
  const bool stops = options_->ordered && !errors.empty();
  for (const Given& given : contents_.given.given) {
    const Rule& rule = *(*contents_.plan)[given.assignment].rule;
    if (!rule.report || errors.contains(given.statement)) continue;
    if (stops && given.statement > errors.begin()->first) break;
    if (!contents_.command->inserted(given.statement)) continue;
    if (options_->has_txn_number &&
        contents_.command->retried(options_->number_of(given.statement))) {
      continue;
    }
    const ids::Values& values = contents_.given.values[given.assignment];
    report.push_back({given.statement, rule.field, values.type(), values[given.value]});
  }
  return report;
}

/// True if no executed statement has stored this value. Only for a reply that accounts for every
/// statement.
bool WriteBatch::is_unused(const Given& given) const {
  if (std::ranges::binary_search(contents_.given.once, given.statement)) return false;
  const auto& errors = contents_.command->errors();
  if (!errors.empty()) {
    if (options_->in_transaction || errors.contains(given.statement)) return true;
    if (options_->ordered && given.statement > errors.begin()->first) return true;
  }
  return !contents_.command->inserted(given.statement);
}

/// Returns unused values to their strategies. Not after a driver's second attempt, because an
/// earlier execution may have stored any of them, nor after an error that does not rule this out.
void WriteBatch::give_back_unused() const {
  const auto& errors = contents_.command->errors();
  if (!options_ || !options_->acknowledged || retried_) return;
  const bool denied =
      std::ranges::all_of(errors, [](const auto& error) { return denies(error.second.view()); });
  if (!denied) return;
  give_back(*contents_.plan, contents_.given, [&](std::size_t at) {
    return !taken_.contains(at) && is_unused(contents_.given.given[at]);
  });
}

}  // namespace idproxy::rewrite
