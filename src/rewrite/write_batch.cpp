#include "rewrite/write_batch.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/sources.hpp"
#include "idproxy/rewrite/unused_values.hpp"
#include "rewrite/command_in_turn.hpp"
#include "rewrite/guards.hpp"

namespace idproxy::rewrite {
namespace {

/// True if the server has refused this field of the command.
bool rejects(std::string_view field, const wire::OpMsgView& message, std::int64_t code) {
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
  return errmsg->text().find(field) != std::string_view::npos;
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

std::optional<WriteOptions> options_of(const WriteBatch::Contents& contents, bool in_turn) {
  auto options = divisible(contents.command->message(), contents.statements);
  if (options) options->in_turn = in_turn;
  return options;
}

constexpr const char* kMoved = "was for a collection that has been dropped, made anew or renamed";

bool has_write_concern_error(const wire::OpMsgView& message) {
  return bson::find(message.body(), "writeConcernError").has_value();
}

/// True if the server has refused a document as such.
bool is_invalid(const WriteError& error) {
  constexpr std::int64_t kDocumentValidationFailure = 121;
  return error.code != kDuplicateKey && error.code != kDocumentValidationFailure;
}

CommandError some_are_lost() {
  return {ErrorCode::operation_failed,
          "mongo-idproxy: the server has stored only some of the documents, and does not say which "
          "(MongoDB 4.4 leaves out documents of an unordered insert that a driver repeats)"};
}

}  // namespace

WriteBatch::WriteBatch(Contents contents, BatchSent sent)
    : contents_(std::move(contents)),
      numbers_(take_turns()),
      options_(options_of(contents_, numbers_.has_value())),
      progress_(contents_.statements, stops_of(options_)),
      budget_(options_ ? options_->max_time_ms : std::nullopt, contents_.started),
      taken_(*contents_.plan, contents_.given, contents_.command->ns(),
             &contents_.command->message()),
      renewal_(*contents_.plan, contents_.given, taken_),
      request_id_(client_request_id()),
      uuid_(contents_.uuid) {
  if (sent == BatchSent::whole) progress_.sent_whole();
  if (contents_.once) options_.reset();
  one_by_one_ = numbers_ && contents_.kind == WriteKind::insert && options_ &&
                (contents_.statements > 1 || is_unsure()) && options_->has_txn_number &&
                !options_->in_transaction;
}

std::optional<GivenUp> WriteBatch::given_up() const {
  const auto& [rule, ended_by] = repeats_.given_up();
  if (rule == nullptr) return std::nullopt;
  return GivenUp{std::string(contents_.command->ns()), rule->rule, rule->attempts(), ended_by};
}

// ---- sending ---------------------------------------------------------------------------------

Action WriteBatch::send(const Step& step) {
  const auto left = budget_.time_left(step.now);
  if (left && *left <= 0) return expired(step);
  if (const auto otherwise = await_guards(step)) return *otherwise;
  if (reservations_) {
    const auto need = reservations_->need(progress_.todo());
    if (need) return ask(Asks::reservations, *need, need->source->patience(), step);
  }
  if (contents_.once) return send_once(step);
  if (numbers_) {
    if (const auto need = numbers_->provide(progress_.todo())) {
      auto patience = need->source->patience();
      if (progress_.commands() == 0) patience -= step.now - contents_.started;
      return ask(Asks::numbers, *need, patience, step);
    }
  }
  if (one_by_one_ && first_ == First::unknown) return ask_whether_executed(step);
  if (progress_.begins_part()) {
    budget_.end();
    sorted_out_ = singly_ = false;
  }
  const std::size_t fitting = contents_.command->fitting(contents_.given, progress_.todo());
  progress_.send(std::min(fitting, most_at_once()));
  if (numbers_) numbers_->send(progress_.out());
  const bool first = progress_.commands() == 1;
  if (!first) request_id_ = static_cast<std::int32_t>(step.workspace.next_request_id++);
  const WritePart part{progress_.out(), &*options_, first, left, request_id_, own_fields()};
  if (!contents_.command->emit(contents_.given, part, step.workspace, step.out)) {
    return action::Close{};
  }
  repeats_.sent(progress_.out());
  if (reservations_) reservations_->sent(progress_.out());
  return action::Send{&step.out, original()};
}

/// Sends the client's whole command in place of a part, because the server does not support
/// stmtIds.
Action WriteBatch::send_whole(const Step& step) {
  progress_.join();
  options_.reset();
  const WritePart whole{progress_.out(), nullptr, true, std::nullopt, request_id_, own_fields()};
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
    repeats_.abandon(progress_.todo(), RetryBound::max_time);
    return finish(step, report());
  }
  return fail({ErrorCode::max_time_ms_expired, "operation exceeded time limit"}, step);
}

/// True if all statements that are left of the batch have collided. With an ordered batch, those
/// after the first do not count.
bool WriteBatch::only_repeats(std::span<const std::int32_t> next) const {
  const bool others_count = numbers_ && !options_->ordered && next.size() > 1;
  // A value that could not be reserved may have been renewed before the statement was ever sent.
  if (reservations_ && !contents_.command->errors().contains(next.front())) return false;
  return repeats_.contains(next.front()) && progress_.only_repeats() && !others_count;
}

Action WriteBatch::fail(CommandError error, const Step& step) const {
  error.repeats_write = progress_.commands() == 0 && may_repeat_write(original());
  step.workspace.reply.clear();
  const auto id = static_cast<std::int32_t>(step.workspace.next_request_id++);
  append_error_reply(original(), id, error, step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

// ---- asking the store -------------------------------------------------------------------------

Action WriteBatch::ask(Asks what, const Need& need, std::chrono::nanoseconds patience,
                       const Step& step) {
  if (need.error) return no_values_for(*need.assignment, *need.error, step);
  asks_ = what;
  asks_for_ = need.assignment;
  return action::AskStore{need.source, need.count, std::max(patience, std::chrono::nanoseconds(0))};
}

Action WriteBatch::answered(ids::Result<ids::Grant> grant, const Step& step) {
  const Asks what = std::exchange(asks_, Asks::nothing);
  if (what == Asks::renewal) {  // which makes do without
    renewal_.answered(std::move(grant));
    return renew(step);
  }
  if (!grant) {
    if (what == Asks::numbers && lost_its_index(grant.error(), step)) return send(step);
    return no_values_for(*asks_for_, grant.error(), step);
  }
  if (what == Asks::reservations) return reserved(*std::move(grant), step);
  if (what == Asks::numbers) numbers_->accept(*std::move(grant));
  return send(step);
}

/// Statements that have collided keep their errors. Otherwise nobody could tell the client about
/// the statements that were never sent, so that the whole command fails.
Action WriteBatch::no_values_for(const Assignment& rule, const ids::Error& error,
                                 const Step& step) {
  if (progress_.commands() > 0 && only_repeats(progress_.todo())) {
    repeats_.abandon(progress_.todo(), RetryBound::no_value);
    return finish(step, report());
  }
  return fail(no_values(contents_.command->message(), contents_.command->ns(), rule, error), step);
}

// ---- guards -----------------------------------------------------------------------------------

/// Before anything is sent: returns nothing if each rule whose values the command carries is
/// guarded.
std::optional<Action> WriteBatch::await_guards(const Step& step) {
  GuardVerdict verdict = ask_guards(*contents_.plan, contents_.given, step.now);
  uuid_ = uuid_for(verdict, contents_.command->message().body(), contents_.kind);
  switch (verdict.kind) {
    case GuardVerdict::Kind::ready:
      return std::nullopt;
    case GuardVerdict::Kind::left_alone:
      verdict.error = {ids::Errc::unavailable,
                       "the collection has become a view or a time-series collection"};
      [[fallthrough]];
    case GuardVerdict::Kind::refused:
      return no_values_for(*verdict.assignment, verdict.error, step);
    case GuardVerdict::Kind::waits:
      break;
  }
  const Need need{verdict.assignment, verdict.assignment->guard.get(), 0};
  return ask(Asks::guard, need, guard_patience(step), step);
}

/// How long the write may still wait for its guards: a caller waits for values as long.
std::chrono::nanoseconds WriteBatch::guard_patience(const Step& step) const {
  const auto since = progress_.commands() == 0 ? contents_.started : moved_at_.value_or(step.now);
  return ids::StoreSource::kPatience - (step.now - since);
}

/// True if the server has refused a statement because its collection is not the one that the
/// guards are of.
bool WriteBatch::is_moved(std::int64_t code) const {
  return uuid_ && code == kCollectionUuidMismatch;
}

std::vector<std::int32_t> WriteBatch::moved_in(std::span<const WriteError> errors) const {
  std::vector<std::int32_t> moved;
  for (const WriteError& error : errors) {
    if (!is_moved(error.code)) continue;
    moved.push_back(progress_.out()[static_cast<std::size_t>(error.index)]);
  }
  return moved;
}

void WriteBatch::note_moved(std::vector<std::int32_t> statements, const Step& step) {
  moved_ = std::move(statements);
  if (moved_.empty()) return;
  if (!moved_at_) moved_at_ = step.now;
  tell_gone(*contents_.plan, *uuid_);
}

/// The first rule with a guard whose values the write carries.
const Assignment* WriteBatch::guarded() const {
  const Plan& plan = *contents_.plan;
  const auto found =
      std::ranges::find_if(plan, [](const auto& each) { return each.guard != nullptr; });
  return &*found;
}

/// Handles a command that failed as a whole because of its collectionUUID; else returns nothing.
std::optional<Action> WriteBatch::failed_uuid(const wire::OpMsgView& message, std::int64_t code,
                                              const Step& step) {
  if (!uuid_ || options_->in_transaction) return std::nullopt;
  if (is_moved(code)) {
    note_moved({progress_.out().begin(), progress_.out().end()}, step);
    moved_.clear();
    if (guard_patience(step).count() <= 0) return moved_too_often(step);
  } else if (rejects("collectionUUID", message, code)) {
    tell_no_uuid(*contents_.plan);
  } else {
    return std::nullopt;
  }
  return go_again(progress_.out(), step);
}

/// True if the index has gone since the guard was asked, and the write may still wait for it.
bool WriteBatch::lost_its_index(const ids::Error& error, const Step& step) {
  if (error.code != ids::Errc::unguarded || !uuid_) return false;
  if (guard_patience(step).count() <= 0) return false;
  if (!moved_at_) moved_at_ = step.now;
  tell_gone(*contents_.plan, *uuid_);
  return true;
}

Action WriteBatch::moved_too_often(const Step& step) {
  return no_values_for(
      *guarded(), {ids::Errc::unavailable, "the collection is dropped or replaced again and again"},
      step);
}

// ---- reservations -----------------------------------------------------------------------------

void WriteBatch::reserve(const WriteRequest& insert, std::span<const RefusedDocument> refused) {
  reservations_ = std::make_unique<ValueReservations>(insert, contents_.given, refused);
}

Action WriteBatch::reserved(ids::Grant grant, const Step& step) {
  ValueReservations::Outcome outcome = reservations_->accept(std::move(grant));
  for (RefusedDocument& each : outcome.refused) contents_.command->refuse(std::move(each));
  if (outcome.taken.empty()) return send(step);
  taken_.add(outcome.taken, ids::Taken::in_batch);
  renews_before_sending_ = true;
  return decide(std::move(outcome.taken), step);
}

/// There is no pause before the next attempt, since nothing has been sent.
Action WriteBatch::renewed_before_sending(std::span<const Collision> collisions, const Step& step) {
  static_cast<void>(budget_.take_pause(step.random));
  for (const Collision& collision : collisions) {
    if (!collision.again) contents_.command->refuse(reservations_->give_up(collision));
  }
  return send(step);
}

/// Sends all statements in one command, with nothing left to decide.
Action WriteBatch::send_once(const Step& step) {
  progress_.sent_whole();
  const WritePart whole{progress_.out(), nullptr, true, std::nullopt, request_id_, own_fields()};
  if (!contents_.command->emit(contents_.given, whole, step.workspace, step.out)) {
    return action::Close{};
  }
  if (step.out.size() > static_cast<std::size_t>(wire::kMaxMessageSize)) {
    return fail(too_large(), step);
  }
  reservations_->sent(progress_.out());
  return action::Send{&step.out, original()};
}

/// Releases the reservations of statements that have stored nothing: they failed, were not reached,
/// or an earlier attempt of the client stored another value for them.
void WriteBatch::release_unused() const {
  if (!reservations_ || !options_ || !options_->acknowledged || !all_denied()) return;
  reservations_->not_stored([&](std::int32_t statement) {
    const bool is_retried = options_->has_txn_number && !options_->in_transaction &&
                            contents_.command->retried(options_->number_of(statement));
    return is_unused(statement) || is_retried;
  });
}

// ---- numbers of sequences ---------------------------------------------------------------------

std::optional<NumbersInTurn> WriteBatch::take_turns() {
  if (!needs_turn(*contents_.plan, contents_.given)) return std::nullopt;
  const Bytes body = contents_.command->message().body();
  const auto autocommit = bson::find(body, "autocommit");
  const bool in_transaction = autocommit && autocommit->as_integer() == 0;
  std::string transaction;
  if (in_transaction) transaction = transaction_of(body).value_or("");
  return std::optional<NumbersInTurn>(std::in_place, *contents_.plan, contents_.given, transaction);
}

/// An upsert may find a document and need no number, so that the next statement's would leave a
/// gap. The same happens if the server has executed a statement in an earlier attempt of the client
/// and skips it now. All that were executed then precede those that were not, except for failed
/// ones, so it is enough to try until one is stored.
std::size_t WriteBatch::most_at_once() const {
  return is_alone() ? 1 : std::numeric_limits<std::size_t>::max();
}

bool WriteBatch::is_alone() const {
  if (!numbers_) return singly_;
  if (contents_.kind != WriteKind::insert) return true;
  return one_by_one_ && !(first_ == First::not_executed && progress_.commands() == 0);
}

/// Asks the server, by an insert of the first statement that cannot succeed. It costs no write, so
/// that nobody waits for the secondaries twice. Asks after the numbers are known: an earlier
/// attempt that is still on its way would get the same ones, or none.
Action WriteBatch::ask_whether_executed(const Step& step) {
  if (is_unsure()) return look_whether_executed(step);
  first_ = First::asked;
  fields_.clear();
  append_fields_of_question(step.random, fields_);
  const WritePart question{progress_.todo().first(1),   &*options_,  false,
                           budget_.time_left(step.now), request_id_, fields_.view()};
  if (!contents_.command->emit(contents_.given, question, step.workspace, step.out)) {
    return action::Close{};
  }
  return action::Send{&step.out, original()};
}

/// Any answer but the expected error leaves it open. So does that of a server before 6.0, which
/// does not know the field.
Action WriteBatch::told_whether_executed(const wire::OpMsgView& message, const Step& step) {
  const auto reply = contents_.command->read(message.body(), 1);
  if (!reply) return action::Close{};
  if (reply->ok && !contents_.command->adds_up(*reply, *options_, progress_.todo().first(1))) {
    return action::Close{};
  }
  const bool is_refused =
      reply->ok && !reply->errors.empty() && reply->errors.front().code == kCollectionUuidMismatch;
  first_ = is_refused ? First::not_executed : First::unclear;
  return send(step);
}

/// Servers before 6.0 have no such question.
Action WriteBatch::look_whether_executed(const Step& step) {
  first_ = First::asked;
  return ask_which_are_executed(progress_.todo(), Looks::before, step);
}

/// Whether an earlier attempt of the client has executed the statement, as far as the server says.
bool WriteBatch::was_executed(std::int32_t statement) const {
  return executed_ && std::ranges::binary_search(*executed_, statement);
}

/// The fields that the next command has beside the client's, or in their place; empty: none.
Bytes WriteBatch::own_fields() {
  const bool in_turn = numbers_ && options_ && !options_->in_transaction;
  if (!in_turn && !uuid_) return {};
  fields_.clear();
  bson::Scope all(fields_);
  if (in_turn) {
    // The rest follows at once, and its answer is for both.
    const bool rest_follows = one_by_one_ && progress_.commands() == 1 &&
                              progress_.out().size() == 1 && !progress_.todo().empty();
    durability_ = append_fields_in_turn(
        contents_.command->message().body(), contents_.kind,
        rest_follows ? AnswersAfter::primary : AnswersAfter::majority, fields_);
  }
  if (uuid_) append_uuid(*uuid_, fields_);
  all.close();
  return fields_.view();
}

/// Goes on with the statements behind one that keeps its error. If it keeps it because others take
/// each number first, they would do so again, and a driver that repeats the batch must find these
/// statements untried.
Action WriteBatch::go_past(std::span<const Collision> collisions,
                           std::span<const std::int32_t> rest, const Step& step) {
  const bool is_last = rest.empty() && progress_.todo().empty();
  const Assignment* sequence =
      collisions.empty() || is_last ? nullptr : numbers_->sequence_in(collisions.front());
  if (sequence != nullptr) {
    const ids::Error error{ids::Errc::unavailable, "others take each number first"};
    return fail(no_values(contents_.command->message(), contents_.command->ns(), *sequence, error),
                step);
  }
  progress_.repeat(rest);
  return progress_.todo().empty() ? finish_or_relay(step) : send(step);
}

/// Handles what a reply with ok: 1 says of the numbers, after it has been merged.
void WriteBatch::learn_numbers(const wire::OpMsgView& message, const WriteReply& reply,
                               std::span<const Collision> collisions) {
  if (options_->in_transaction && !reply.errors.empty()) return numbers_->lost();
  const bool again = reply.retried > 0 || was_executed(progress_.out().front());
  is_repeated_ = is_repeated_ || again;
  // It is not known which of several statements the server has executed now, or whether it has
  // executed any.
  const bool is_unknown = is_unsure() && !executed_ && reply.errors.empty();
  if (is_unknown || (again && progress_.out().size() > 1)) return numbers_->lost();
  std::vector<std::int32_t> stored;
  if (!again) {
    std::ranges::copy_if(progress_.tried(), std::back_inserter(stored),
                         [&](std::int32_t each) { return contents_.command->inserted(each); });
  }
  const bool is_certain = !has_write_concern_error(message);
  numbers_->stored(stored, is_certain ? durability_ : ids::Durability::not_yet);
  const bool rest_is_pending = options_->ordered || (!is_repeated_ && !contents_.loses_writes);
  if (!stored.empty() && rest_is_pending) one_by_one_ = false;
  if (!reply.errors.empty()) learn_of_error(reply, collisions);
}

/// A collection that took the place of another one has other numbers.
void WriteBatch::learn_of_error(const WriteReply& reply, std::span<const Collision> collisions) {
  if (!moved_.empty()) return numbers_->lost();
  if (!collisions.empty()) return numbers_->taken(collisions.front());
  if (!denies(reply.errors.front().document)) numbers_->lost();
}

// ---- replies ---------------------------------------------------------------------------------

Action WriteBatch::reply(const wire::OpMsgView& message, const Step& step) {
  if (looks_ != Looks::nothing) return told(message, step);
  if (first_ == First::asked) return told_whether_executed(message, step);
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
  if (numbers_shift(*reply)) shift_numbers(*reply);
  if (may_be_mixed_up(*reply, step)) return sort_out(message, *reply, step);
  if (!contents_.command->adds_up(*reply, *options_, progress_.out())) return otherwise;
  return answered(message, *reply, step);
}

/// Handles a command that failed as a whole.
Action WriteBatch::failed(const wire::OpMsgView& message, std::int64_t code, const Step& step) {
  const bool only = progress_.is_only_command();
  const bool duplicate = code == kDuplicateKey && progress_.out().size() == 1;
  const bool denied = stores_nothing(code) || (duplicate && denies(message.body()));
  if (numbers_) {
    denied && !options_->in_transaction ? numbers_->stored({}, ids::Durability::not_yet)
                                        : numbers_->lost();
  }
  if (duplicate) {
    if (const auto next = failed_duplicate(message, step)) return *next;
  }
  if (const auto next = failed_uuid(message, code, step)) return *next;
  if (rejects("stmtIds", message, code) && options_->has_txn_number && !numbers_) {
    if (progress_.commands() == 1 && !only) return send_whole(step);
    if (progress_.commands() > 1 && only_repeats(progress_.out())) {
      repeats_.abandon(progress_.out(), RetryBound::server);
      return finish(step, report());
    }
  }
  if (denied && reservations_) {
    const auto out = progress_.out();
    reservations_->not_stored([&](auto each) { return std::ranges::binary_search(out, each); });
  }
  const bool nothing_stored = denied && (!duplicate || contents_.given.multi.empty());
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
  if (numbers_) numbers_->taken(collision);
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
  note_moved(moved_in(reply.errors), step);
  if (options_->in_transaction && !(collisions.empty() && moved_.empty())) {
    if (numbers_) numbers_->lost();
    const auto again = moved_.empty() ? aborted(message, collisions.front(), step)
                                      : run_again(message, *guarded(), kMoved, step);
    if (again) return *again;
    moved_.clear();
  }
  only_ = progress_.is_only_command();
  failed_whole_ = false;
  retried_ = retried_ || reply.retried > 0;
  replaces_errors_ = replaces_errors_ || contents_.command->replaces_errors(reply, progress_.out());
  contents_.command->add(message, reply, progress_.out());
  progress_.answered(first_failed(reply));
  if (numbers_) learn_numbers(message, reply, collisions);
  const std::size_t failed = options_->stops() ? 0 : reply.errors.size();
  if (progress_.tried().size() > failed) budget_.progress(step.now);
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
  // To a write with {w: 0}, MongoDB 4.4 answers without n.
  const bool is_short = reply.errors.empty() && reply.n &&
                        *reply.n < static_cast<std::int64_t>(progress_.out().size());
  if (is_short && contents_.loses_writes && contents_.kind == WriteKind::insert) {
    lost_ = true;
    return fail(some_are_lost(), step);
  }
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
  return run_again(message, assignment(collision.given.front()), "is taken", step);
}

/// The answer that tells the client to run the transaction again; nothing if it should get the
/// server's.
std::optional<Action> WriteBatch::run_again(const wire::OpMsgView& message,
                                            const Assignment& target, const std::string& why,
                                            const Step& step) {
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
           std::string(contents_.command->ns()) + " " + why + "; run the transaction again",
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
  for (Collision& collision : collisions) {
    const auto bound = forbids(collision, step);
    collision.again = !bound;
    if (bound) collision.ended_by = *bound;
  }
  std::vector<std::size_t> others = doubtful(collisions);
  renewal_.start(std::move(collisions), std::move(others));
  return renew(step);
}

/// With `multi: true`, a duplicate may come from a document that the statement has found and
/// changed like others before it. But it does not change a field that gets a value, so that in an
/// index on that field alone only the insert can collide: it has found no document.
std::optional<RetryBound> WriteBatch::forbids(const Collision& collision, const Step& step) {
  const bool is_multi = std::ranges::binary_search(contents_.given.multi, collision.statement);
  if (is_multi && !collision.on_field_alone) return RetryBound::multi;
  std::vector<const Assignment*> taken;
  taken.reserve(collision.given.size());
  for (const std::size_t given : collision.given) taken.push_back(&assignment(given));
  return budget_.forbids(taken, repeats_.of(collision.statement), step.now);
}

/// After a collision in an ordered batch, the values of the statements behind it that come from the
/// same source, if many of them must be taken, too: sent as they are, each of them would cost a
/// command. Reserved values are not: their reservations say that they are free.
std::vector<std::size_t> WriteBatch::doubtful(std::span<const Collision> collisions) {
  const auto tail = progress_.tail();
  if (tail.size() < 2 || collisions.empty() || !collisions.front().again || reservations_) {
    return {};
  }
  const std::size_t tried = progress_.tried().size() + 1;
  std::vector<bool> doubts(contents_.plan->size());
  for (const std::size_t at : collisions.front().given) {
    ids::BoundedSpace* space = assignment(at).strategy->bounded_space();
    doubts[contents_.given.given[at].assignment] =
        space != nullptr && space->doubts(tried, tail.size() - 1);
  }
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < contents_.given.given.size(); ++at) {
    const Given& given = contents_.given.given[at];
    const bool is_untried = std::ranges::binary_search(tail.subspan(1), given.statement);
    if (doubts[given.assignment] && is_untried) found.push_back(at);
  }
  return found;
}

/// Draws fresh values until done or until the store must be asked.
Action WriteBatch::renew(const Step& step) {
  const auto need = renewal_.draw();
  if (!need) return decided(step);
  return ask(Asks::renewal, *need,
             budget_.patience(*need->assignment->rule, *need->source, step.now), step);
}

/// Acts once it is settled which statements are sent again, and with which values.
Action WriteBatch::decided(const Step& step) {
  const std::vector<Collision> collisions = renewal_.take();
  count(collisions);
  if (std::exchange(renews_before_sending_, false)) {
    return renewed_before_sending(collisions, step);
  }
  const std::vector<std::int32_t> moved = std::exchange(moved_, {});
  if (!moved.empty() && guard_patience(step).count() <= 0) return moved_too_often(step);
  if (failed_whole_) {
    return collisions.front().again ? go_again(progress_.out(), step) : relay_failure(step);
  }
  if (const auto tail = progress_.tail(); !tail.empty()) {
    const bool goes_again = !collisions.empty() && collisions.front().again;
    if (goes_again || !moved.empty()) return go_again(tail, step);
    if (options_->ordered) return finish_or_relay(step);
    return go_past(collisions, tail.subspan(1), step);
  }
  std::vector<std::int32_t> again = moved;
  for (const Collision& collision : collisions) {
    if (collision.again) again.push_back(collision.statement);
  }
  std::ranges::sort(again);
  if (!again.empty()) return go_again(again, step);
  if (!progress_.todo().empty()) return send(step);
  return finish_or_relay(step);
}

void WriteBatch::count(std::span<const Collision> collisions) {
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
Action WriteBatch::go_again(std::span<const std::int32_t> statements, const Step& step) {
  progress_.repeat(statements);
  const auto pause = budget_.take_pause(step.random);
  if (pause.count() > 0) return action::Wait{pause};
  return send(step);
}

// ---- servers before 6.0 ----------------------------------------------------------------------

/// True if the client may repeat an earlier attempt, and the server does not say what that has
/// stored: then other values are stored than those that are given now.
bool WriteBatch::is_unsure() const {
  return options_ && options_->has_txn_number && !options_->in_transaction &&
         !contents_.tells_retried;
}

/// Once the write is done: the values to report are those that are stored. Nothing if there is
/// nothing to ask.
std::optional<Action> WriteBatch::ask_what_is_stored(const Step& step) {
  const bool reports = std::ranges::any_of(
      *contents_.plan, [](const Assignment& each) { return each.rule->report; });
  if (!is_unsure() || stored_ || !reports || !options_->acknowledged) return std::nullopt;
  std::vector<ids::TypedValue> ids = contents_.command->ids(*contents_.plan, contents_.given);
  if (ids.empty() || ids.size() > StoredLook::kMost) return std::nullopt;
  looks_ = Looks::to_report;
  begin_question(step);
  stored_.emplace(std::move(ids));
  stored_->emit({&contents_.command->message(), contents_.command->ns(), request_id_,
                 budget_.time_left(step.now)},
                *contents_.plan, step.out);
  return action::Send{&step.out, {}};
}

/// True for a reply that MongoDB 4.4 may have given to a repetition. With statements between others
/// that it had executed before, it counts the positions of errors without the others that are still
/// pending, and if the last one had been executed, it leaves out the pending ones
/// (observed, 4.4.2). Not if the statements are known to be pending, nor of a single one.
bool WriteBatch::may_be_mixed_up(const WriteReply& reply, const Step& step) const {
  const auto left = budget_.time_left(step.now);
  const bool may_be = is_unsure() && contents_.kind == WriteKind::insert && !options_->stops() &&
                      options_->acknowledged && !numbers_ && !sorted_out_ &&
                      progress_.out().size() > 1 && left.value_or(1) > 0;
  const bool has_errors = contents_.loses_writes && !std::ranges::all_of(reply.errors, is_invalid);
  return may_be && (has_errors || !accounts_for_all(reply));
}

/// True for the reply of MongoDB 4.4 to an unordered insert with invalid documents: it gives them
/// no statement number, so that those behind them have the numbers of those in front
/// (observed, 4.4.2).
bool WriteBatch::numbers_shift(const WriteReply& reply) const {
  return contents_.loses_writes && is_unsure() && contents_.kind == WriteKind::insert &&
         !options_->stops() && progress_.is_only_command() &&
         std::ranges::any_of(reply.errors, is_invalid);
}

void WriteBatch::shift_numbers(const WriteReply& reply) {
  std::vector<std::int32_t> numbers;
  std::int32_t valid = 0;
  auto error = reply.errors.begin();
  for (std::int32_t each = 0; each < static_cast<std::int32_t>(contents_.statements); ++each) {
    while (error != reply.errors.end() && error->index < each) ++error;
    numbers.push_back(options_->number_of(valid));
    const bool failed = error != reply.errors.end() && error->index == each;
    if (!failed || !is_invalid(*error)) ++valid;
  }
  options_->stmt_ids = std::move(numbers);
}

bool WriteBatch::accounts_for_all(const WriteReply& reply) const {
  const auto accounted = reply.n.value_or(0) + static_cast<std::int64_t>(reply.errors.size());
  return accounted == static_cast<std::int64_t>(progress_.out().size());
}

/// Asks what the server has executed.
Action WriteBatch::sort_out(const wire::OpMsgView& message, const WriteReply& reply,
                            const Step& step) {
  lost_ = lost_ || !accounts_for_all(reply);
  invalid_.clear();
  for (const WriteError& error : reply.errors) {
    if (is_invalid(error)) {
      invalid_.push_back(progress_.out()[static_cast<std::size_t>(error.index)]);
    }
  }
  sorted_out_ = true;
  unchecked_.clear();
  unchecked_.append(message.message());
  std::vector<std::int32_t> valid;
  std::ranges::set_difference(progress_.out(), invalid_, std::back_inserter(valid));
  return ask_which_are_executed(valid, Looks::for_missing, step);
}

/// Goes on with the reply if its errors are those of the statements that are missing. Otherwise
/// ignores it, and sends these again; if it is not known which they are, all of them, one by one:
/// the server skips what it has executed.
Action WriteBatch::send_missing(const std::optional<std::vector<std::int32_t>>& executed,
                                const Step& step) {
  const auto out = progress_.out();
  std::vector<std::int32_t> missing(out.begin(), out.end());
  if (executed) {
    std::erase_if(missing,
                  [&](std::int32_t each) { return std::ranges::binary_search(*executed, each); });
    const auto message = wire::OpMsgView::parse(unchecked_.view());
    const auto reply = contents_.command->read(message->body(), out.size());
    const bool is_right = std::ranges::equal(missing, reply->errors, {}, {}, [&](const auto& each) {
      return out[static_cast<std::size_t>(each.index)];
    });
    if (is_right) return answered(*message, *reply, step);
    if (!invalid_.empty()) return fail(some_are_lost(), step);
    contents_.command->add_stored(static_cast<std::int64_t>(executed->size()));
  }
  // A reply has to come from the server: to one that it has executed it says so again.
  if (missing.empty()) {
    missing.push_back(out.back());
    contents_.command->add_stored(-1);
  }
  only_ = false;
  if (!executed && !invalid_.empty()) return fail(some_are_lost(), step);
  singly_ = !executed;
  progress_.repeat(missing);
  return send(step);
}

void WriteBatch::begin_question(const Step& step) {
  if (progress_.commands() == 0) return;
  request_id_ = static_cast<std::int32_t>(step.workspace.next_request_id++);
}

Action WriteBatch::ask_which_are_executed(std::span<const std::int32_t> statements, Looks why,
                                          const Step& step) {
  looks_ = why;
  begin_question(step);
  question_.emplace(statements);
  question_->emit({&contents_.command->message(), &*options_, contents_.command->ns(), request_id_,
                   budget_.time_left(step.now)},
                  step.out);
  return action::Send{&step.out, {}};
}

Action WriteBatch::told(const wire::OpMsgView& message, const Step& step) {
  const Looks why = std::exchange(looks_, Looks::nothing);
  if (why == Looks::to_report) {
    (void)stored_->read(message);  // if it does not tell, nothing is reported
    return finish_or_relay(step);
  }
  auto executed = question_->read(message);
  question_.reset();
  if (why == Looks::for_missing) return send_missing(executed, step);
  executed_ = std::move(executed);
  first_ = executed_ && executed_->empty() ? First::not_executed : First::unclear;
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
  if (const auto question = ask_what_is_stored(step)) return *question;
  const std::vector<Assigned> assigned = report();
  const bool has_asked = stored_ || sorted_out_ || renewal_.has_asked();
  if (has_asked || !only_ || replaces_errors_ || !assigned.empty()) {
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
  const bool unsure = is_unsure();
  for (const Given& given : contents_.given.given) {
    const Rule& rule = *(*contents_.plan)[given.assignment].rule;
    if (!rule.report || errors.contains(given.statement)) continue;
    if (stops && given.statement > errors.begin()->first) break;
    if (!contents_.command->inserted(given.statement)) continue;
    if (unsure) {
      const auto value = stored_ ? stored_->value(given.statement, rule.field) : std::nullopt;
      if (value) report.push_back({given.statement, rule.field, value->type, value->value});
      continue;
    }
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
bool WriteBatch::is_unused(std::int32_t statement) const {
  if (std::ranges::binary_search(contents_.given.multi, statement)) return false;
  const auto& errors = contents_.command->errors();
  if (!errors.empty()) {
    if (options_->in_transaction || errors.contains(statement)) return true;
    if (options_->ordered && statement > errors.begin()->first) return true;
  }
  return !contents_.command->inserted(statement);
}

/// True if each error says that its document is not stored.
bool WriteBatch::all_denied() const {
  return std::ranges::all_of(contents_.command->errors(),
                             [](const auto& error) { return denies(error.second.view()); });
}

/// Returns unused values to their strategies, and releases their reservations. Not after a driver's
/// second attempt, if the server tells (retriedStmtIds), nor after an error that does not rule out
/// that the value is stored. A server before 6.0 does not tell; but each attempt has values of its
/// own, and those of a statement that failed or found its document are stored by none.
void WriteBatch::give_back_unused() const {
  release_unused();
  if (!options_ || !options_->acknowledged || retried_ || !all_denied()) return;
  give_back(*contents_.plan, contents_.given, [&](std::size_t at) {
    return !taken_.contains(at) && is_unused(contents_.given.given[at].statement);
  });
}

}  // namespace idproxy::rewrite
