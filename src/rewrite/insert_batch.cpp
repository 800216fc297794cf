#include "insert_batch.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "idproxy/rewrite/duplicate_key.hpp"

namespace idproxy::rewrite {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// About as long in mongod's hands as another command is under way.
constexpr std::size_t kSmallestTail = 100;

/// Before the re-send that follows `resent` others.
milliseconds backoff(const Retry& retry, std::uint32_t resent) {
  milliseconds wait = retry.backoff;
  for (; resent > 0 && wait < retry.backoff_max; --resent) wait *= 2;
  return std::min(wait, retry.backoff_max);
}

/// Half of it at least, so that those who collided together do not meet again.
nanoseconds jittered(nanoseconds wait, RandomSource& random) {
  if (wait.count() == 0) return wait;
  const nanoseconds half = wait / 2;
  const auto rest = static_cast<std::uint64_t>((wait - half).count());
  return half + nanoseconds(uniform(random, rest + 1));
}

/// Errors of a whole insert that the server finds before it stores anything.
bool stores_nothing(std::int64_t code) {
  constexpr std::int64_t kUnauthorized = 13;
  constexpr std::int64_t kInvalidNamespace = 73;
  constexpr std::int64_t kCommandNotSupportedOnView = 166;
  return code == kUnauthorized || code == kInvalidNamespace || code == kCommandNotSupportedOnView;
}

/// True if an entry of writeErrors proves that its document is stored nowhere. A mongos answers
/// with writeErrors too when it has lost a shard that may have stored everything. A duplicate that
/// does not say of which keys may be about the value itself, which would then fail the next insert.
bool denies(Bytes error) {
  // BadValue, FailedToParse, Unauthorized, TypeMismatch, PathNotViable, DollarPrefixedFieldName,
  // InvalidIdField, EmptyFieldName, DottedFieldName, DocumentValidationFailure,
  // BSONObjectTooLarge, geo keys that cannot be extracted
  static constexpr std::array<std::int64_t, 12> kRefusals = {2,  9,  13, 14,  28,    52,
                                                             53, 56, 57, 121, 10334, 16755};
  const auto code = bson::find(error, "code");
  const auto number = code ? code->as_integer() : std::nullopt;
  if (number == kDuplicateKey) return bson::find(error, "keyPattern").has_value();
  return number && std::ranges::find(kRefusals, *number) != kRefusals.end();
}

/// True if the server did not understand the field by which re-sent documents are told apart.
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

}  // namespace

InsertBatch::InsertBatch(Contents contents, BatchSent sent)
    : contents_(std::move(contents)),
      message_(*wire::OpMsgView::parse(original())),
      command_(*InsertCommand::read(message_)),
      options_(divisible(message_, contents_.documents)),
      ns_(std::string(command_.db) + "." + std::string(command_.collection)),
      request_id_(message_.header().request_id) {
  std::vector<std::int32_t> all(contents_.documents);
  std::iota(all.begin(), all.end(), 0);
  if (sent == BatchSent::whole) {
    sent_ = std::move(all);
    commands_ = 1;
  } else {
    todo_ = std::move(all);
  }
}

std::optional<InsertOptions> InsertBatch::divisible(const wire::OpMsgView& insert,
                                                    std::size_t documents) {
  auto options = InsertOptions::read(insert.body());
  if (!options) return std::nullopt;
  const bool numbered = options->has_txn_number && !options->in_transaction;
  if (numbered && !options->numbers(documents)) return std::nullopt;
  // Its reply does not say where it stopped.
  if (options->ordered && !options->acknowledged) return std::nullopt;
  return options;
}

bool InsertBatch::separable(const InsertCommand& command) {
  constexpr std::size_t kLevels = 100;  // mongod takes somewhat more
  InsertDocuments documents(command);
  while (const auto document = documents.next()) {
    if (static_cast<std::int64_t>(document->size()) > bson::kMaxInternalDocument) return false;
    if (!bson::well_formed(*document, kLevels)) return false;
  }
  return !documents.malformed() && documents.plain_keys();
}

// ---- sending ---------------------------------------------------------------------------------

Action InsertBatch::send(const Step& step) {
  const InsertRequest insert{message_, command_, *contents_.plan, contents_.now};
  const auto left = time_left(step.now);
  if (left && *left <= 0) return expired(step);
  std::size_t count = InsertRewriter::fitting(insert, contents_.given, todo_);
  if (!options_->ordered && !options_->in_transaction) count = std::min(count, kPartStatements);
  if (again_ > 0) {
    count = std::min(count, again_);
    again_ -= count;
  } else if (!options_->ordered) {
    first_duplicate_.reset();  // for the server, a part is a batch of its own
  }
  if (options_->ordered && tail_) count = std::min(count, *tail_);
  sent_.assign(todo_.begin(), todo_.begin() + static_cast<std::ptrdiff_t>(count));
  todo_.erase(todo_.begin(), todo_.begin() + static_cast<std::ptrdiff_t>(count));
  if (commands_ > 0) request_id_ = static_cast<std::int32_t>(step.workspace.next_request_id++);
  const InsertPart part{sent_, &*options_, commands_ == 0, left, request_id_};
  if (!step.workspace.insert.emit_part(insert, contents_.given, part, step.out))
    return action::Close{};
  ++commands_;
  count_resent();
  return action::Send{&step.out, original()};
}

/// Of maxTimeMS; nothing if the client has set no limit.
std::optional<std::int64_t> InsertBatch::time_left(nanoseconds now) const {
  if (!options_->max_time_ms) return std::nullopt;
  const auto spent = std::chrono::duration_cast<milliseconds>(now - contents_.started);
  return *options_->max_time_ms - spent.count();
}

/// The client's time is up before the next command. What collided keeps its error; what has never
/// been sent can only be answered as mongod answers then.
Action InsertBatch::expired(const Step& step) {
  if (only_resends(todo_)) {
    abandon(todo_);
    return finish(step);
  }
  return fail({ErrorCode::max_time_ms_expired, "operation exceeded time limit"}, step);
}

Action InsertBatch::fail(CommandError error, const Step& step) const {
  error.repeats_write = commands_ == 0 && may_repeat_write(original());
  step.workspace.reply.clear();
  const auto id = static_cast<std::int32_t>(step.workspace.next_request_id++);
  append_error_reply(original(), id, error, step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

// ---- what a reply says -----------------------------------------------------------------------

Action InsertBatch::reply(const wire::OpMsgView& message, const Step& step) {
  // What cannot be understood is not acted on: the client may have it if that is all there is.
  const Action otherwise = only_command() ? Action{action::Relay{}} : action::Close{};
  const auto reply = InsertReply::read(message.body());
  if (!reply) return otherwise;
  if (!reply->ok) return options_ ? failed(message, *reply, step) : otherwise;
  const auto errors = read_write_errors(reply->write_errors, sent_.size());
  if (!errors) return otherwise;
  if (!options_) return answered_once(message, *reply, *errors, step);
  if (!adds_up(*reply, *errors)) return otherwise;
  return answered(message, *reply, *errors, step);
}

/// Every document is accounted for.
bool InsertBatch::adds_up(const InsertReply& reply, std::span<const WriteError> errors) const {
  const auto sent = static_cast<std::int64_t>(sent_.size());
  const auto failed = static_cast<std::int64_t>(errors.size());
  if (!reply.n || reply.retried > contents_.documents) return false;
  // Whoever asks for no acknowledgement, but for a reply, gets {n: 0, ok: 1} (observed, 6.0.5).
  if (!options_->acknowledged) return errors.empty() && *reply.n == 0;
  // A transaction stops at the first error even if unordered (observed, 6.0.5).
  const bool stops = options_->ordered || options_->in_transaction;
  if (!stops) return *reply.n + failed == sent;
  return failed == 0 ? *reply.n == sent : failed == 1 && *reply.n == errors.front().index;
}

/// The command has failed as a whole.
Action InsertBatch::failed(const wire::OpMsgView& message, const InsertReply& reply,
                           const Step& step) {
  const bool only = only_command();
  if (reply.code == kDuplicateKey && sent_.size() == 1) {
    Collision collision = collision_of(sent_.front(), message.body());
    if (!collision.given.empty()) {
      only_ = only;
      if (options_->in_transaction) {
        if (const auto again = aborted(message, collision, step)) return *again;
      } else {
        tell_strategies({&collision, 1}, ids::Taken::in_batch);
        failed_whole_ = true;
        failure_.clear();
        failure_.append(message.message());
        std::vector<Collision> collisions;
        collisions.push_back(std::move(collision));
        return decide(std::move(collisions), step);
      }
    }
  }
  if (rejects_stmt_ids(message, reply.code) && options_->has_txn_number) {
    if (commands_ == 1 && !only) return send_whole(step);
    if (commands_ > 1 && only_resends(sent_)) {
      abandon(sent_);
      return finish(step);
    }
  }
  if (only && stores_nothing(reply.code)) take_back_all();
  if (only) return action::Relay{};
  step.workspace.reply.clear();
  const auto append = commands_ == 1 ? append_readdressed : append_failure_of_later;
  append(message, message_.header().request_id, step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

/// As one command, as the client sent it: the server knows no other way.
Action InsertBatch::send_whole(const Step& step) {
  sent_.insert(sent_.end(), todo_.begin(), todo_.end());
  todo_.clear();
  options_.reset();
  const InsertRequest insert{message_, command_, *contents_.plan, contents_.now};
  const InsertPart whole{sent_, nullptr, true, std::nullopt, request_id_};
  if (!step.workspace.insert.emit_part(insert, contents_.given, whole, step.out))
    return action::Close{};
  if (step.out.size() > static_cast<std::size_t>(wire::kMaxMessageSize)) {
    return fail(too_large(), step);
  }
  return action::Send{&step.out, original()};
}

Action InsertBatch::answered(const wire::OpMsgView& message, const InsertReply& reply,
                             std::span<const WriteError> errors, const Step& step) {
  std::vector<Collision> collisions = collisions_in(errors);
  if (options_->in_transaction && !collisions.empty()) {
    if (const auto again = aborted(message, collisions.front(), step)) return *again;
  }
  only_ = only_command();
  failed_whole_ = false;
  retried_ = retried_ || reply.retried > 0;
  merge_.add(message, reply, errors, sent_);
  replaces_errors_ = replaces_errors_ || refuses(errors);
  stopped_.reset();
  if (options_->ordered && !errors.empty()) stopped_ = errors.front().index;
  count_cured(stopped_ ? static_cast<std::size_t>(*stopped_) : sent_.size());
  if (errors.empty()) went_well();
  if (options_->in_transaction) {
    if (errors.empty() && !todo_.empty()) return send(step);
    return finish_or_relay(step);
  }
  if (options_->ordered) limit_tail(errors);
  tell_strategies(collisions, ids::Taken::in_batch);
  return decide(std::move(collisions), step);
}

/// It is settled what goes again, and with which values.
Action InsertBatch::decided(const Step& step) {
  const std::vector<Collision> collisions = std::exchange(renewal_.collisions, {});
  count_decided(collisions);
  if (failed_whole_) {
    if (collisions.front().again) return go_again({collisions.front().document}, step);
    return relay_failure(step);
  }
  if (stopped_) {
    if (collisions.empty() || !collisions.front().again) return finish_or_relay(step);
    std::vector<std::int32_t> tail(sent_.begin() + *stopped_, sent_.end());
    return go_again(std::move(tail), step);
  }
  std::vector<std::int32_t> again;
  for (const Collision& collision : collisions) {
    if (collision.again) again.push_back(collision.document);
  }
  if (!again.empty()) return go_again(std::move(again), step);
  if (!todo_.empty()) return send(step);
  return finish_or_relay(step);
}

/// A single document's duplicate, which the server answered with as an error of the whole command.
Action InsertBatch::relay_failure(const Step& step) {
  if (only_ && !asked_) return action::Relay{};
  step.workspace.reply.clear();
  append_readdressed(*wire::OpMsgView::parse(failure_.view()), message_.header().request_id,
                     step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

/// Of an ordered batch mongod stores nothing behind the first error, so that sending the whole tail
/// for each of many collisions would cost the square of them. Its pieces become half as long with
/// each, but twice what went well before it at least, and double where all goes well.
void InsertBatch::limit_tail(std::span<const WriteError> errors) {
  if (errors.empty()) {
    if (tail_) *tail_ *= 2;
    return;
  }
  const auto stored = static_cast<std::size_t>(errors.front().index);
  tail_ = std::max({kSmallestTail, 2 * stored, tail_.value_or(sent_.size()) / 2});
}

/// A command whose options are not understood: nothing of it is sent again.
Action InsertBatch::answered_once(const wire::OpMsgView& message, const InsertReply& reply,
                                  std::span<const WriteError> errors, const Step& step) {
  if (!refuses(errors)) return action::Relay{};
  merge_.add(message, reply, errors, sent_);
  return finish(step);
}

/// These go first, after the backoff.
Action InsertBatch::go_again(std::vector<std::int32_t> documents, const Step& step) {
  todo_.insert(todo_.begin(), documents.begin(), documents.end());
  if (!options_->ordered) again_ += documents.size();
  const nanoseconds delay = jittered(std::exchange(wait_, {}), step.random);
  if (delay.count() > 0) return action::Wait{delay};
  return send(step);
}

/// A duplicate of ours has aborted the client's transaction. The client is told to run it again, or
/// gets the server's answer: then nothing.
std::optional<Action> InsertBatch::aborted(const wire::OpMsgView& message,
                                           const Collision& collision, const Step& step) {
  tell_strategies({&collision, 1}, ids::Taken::in_transaction);
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
  append_undone_reply(message, message_.header().request_id,
                      {ErrorCode::write_conflict,
                       "mongo-idproxy: the value generated for field '" + target.rule->field +
                           "' of " + ns_ + " is taken; run the transaction again",
                       kTransientTransactionError},
                      step.workspace.reply);
  return action::Reply{step.workspace.reply.view()};
}

void InsertBatch::went_well() const {
  for (std::size_t i = 0; i < contents_.plan->size(); ++i) {
    if (contents_.given.values[i].size() == 0) continue;
    const Assignment& target = (*contents_.plan)[i];
    if (options_->in_transaction) target.outcomes->went_well();
    if (target.strategy->in_a_row()) target.strategy->went_well();
  }
}

// ---- duplicates ------------------------------------------------------------------------------

std::span<const Given> InsertBatch::given_to(std::int32_t document) const {
  const auto found =
      std::ranges::equal_range(contents_.given.given, document, {}, &Given::document);
  return {found.begin(), found.end()};
}

/// Its `given` stays empty if the duplicate is not ours.
InsertBatch::Collision InsertBatch::collision_of(std::int32_t document, Bytes error) const {
  Collision collision{document, {}};
  const auto given = given_to(document);
  if (given.empty()) return collision;
  const auto helped = curable(error, ns_, *contents_.plan);
  for (const Given& each : given) {
    if (std::ranges::find(helped, each.assignment) == helped.end()) continue;
    collision.given.push_back(static_cast<std::size_t>(&each - contents_.given.given.data()));
  }
  if (collision.given.empty()) {
    ++(*contents_.plan)[given.front().assignment].outcomes->foreign;
  }
  return collision;
}

std::vector<InsertBatch::Collision> InsertBatch::collisions_in(
    std::span<const WriteError> errors) const {
  std::vector<Collision> collisions;
  for (const WriteError& error : errors) {
    if (error.code != kDuplicateKey) continue;
    const std::int32_t document = sent_[static_cast<std::size_t>(error.index)];
    Collision collision = collision_of(document, error.document);
    if (!collision.given.empty()) collisions.push_back(std::move(collision));
  }
  return collisions;
}

/// Their values are taken.
void InsertBatch::tell_strategies(std::span<const Collision> collisions, ids::Taken where) {
  if (collisions.empty()) return;
  std::vector<std::vector<std::uint32_t>> values(contents_.plan->size());
  collisions_.resize(contents_.plan->size());
  for (const Collision& collision : collisions) {
    for (const std::size_t at : collision.given) {
      const Given& given = contents_.given.given[at];
      values[given.assignment].push_back(given.value);
      taken_.insert(at);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    std::ranges::sort(values[i]);
    collisions_[i] += values[i].size();
    (*contents_.plan)[i].strategy->collided(contents_.given.values[i], values[i], collisions_[i],
                                            where);
  }
}

/// Which of them go again, with fresh values.
Action InsertBatch::decide(std::vector<Collision> collisions, const Step& step) {
  asked_ = false;
  if (!collisions.empty()) {
    const auto now = step.now;
    if (!first_duplicate_) first_duplicate_ = now;
    for (Collision& collision : collisions) collision.again = may_go_again(collision, now);
  }
  renewal_ = {std::move(collisions), 0, {}, 0, 0};
  want_next_rule();
  return renew(step);
}

void InsertBatch::count_decided(std::span<const Collision> collisions) {
  for (const Collision& collision : collisions) {
    const Assignment& target = assignment(collision.given.front());
    if (collision.again) {
      Tries& tries = tries_[collision.document];
      ++tries.resent;
      tries.rule = &target;
      tries.counted = false;
    } else {
      ++target.outcomes->given_up;
      given_up_ = &target;
    }
  }
}

/// Within the bounds of each rule that it collided on.
bool InsertBatch::may_go_again(const Collision& collision, nanoseconds now) {
  const auto tries = tries_.find(collision.document);
  const std::uint32_t resent = tries == tries_.end() ? 0 : tries->second.resent;
  nanoseconds wait = wait_;
  for (const std::size_t given : collision.given) {
    const Retry& retry = assignment(given).rule->retry;
    if (resent >= assignment(given).attempts()) return false;
    wait = std::max<nanoseconds>(wait, backoff(retry, resent));
    if (now - *first_duplicate_ + wait >= retry.deadline) return false;
  }
  const auto left = time_left(now + wait);
  if (left && *left <= 0) return false;
  wait_ = wait;
  return true;
}

/// Nothing is left of the batch but documents that have collided; of an ordered one, what is behind
/// the first of them does not count.
bool InsertBatch::only_resends(std::span<const std::int32_t> next) const {
  return tries_.contains(next.front()) && (options_->ordered || again_ == todo_.size());
}

/// Duplicates that were to go again keep their error after all.
void InsertBatch::abandon(std::span<const std::int32_t> documents) {
  for (const std::int32_t document : documents) {
    const auto tries = tries_.find(document);
    if (tries == tries_.end()) continue;
    ++tries->second.rule->outcomes->given_up;
    given_up_ = tries->second.rule;
  }
}

void InsertBatch::count_resent() {
  if (tries_.empty()) return;
  for (const std::int32_t document : sent_) {
    const auto tries = tries_.find(document);
    if (tries == tries_.end() || std::exchange(tries->second.counted, true)) continue;
    ++tries->second.rule->outcomes->resent;
  }
}

/// What had collided, and is stored now. `reached`: how many of the command's documents mongod
/// tried.
void InsertBatch::count_cured(std::size_t reached) {
  if (tries_.empty()) return;
  for (std::size_t i = 0; i < reached; ++i) {
    const auto tries = tries_.find(sent_[i]);
    if (tries == tries_.end() || merge_.errors().contains(sent_[i])) continue;
    ++tries->second.rule->outcomes->cured;
    tries_.erase(tries);
  }
}

/// From renewal_.assignment on, the next rule that has values to renew.
void InsertBatch::want_next_rule() {
  Renewal& renewal = renewal_;
  renewal.wanted.clear();
  for (; renewal.assignment < contents_.plan->size(); ++renewal.assignment) {
    for (Collision& collision : renewal.collisions) {
      if (!collision.again) continue;
      for (const std::size_t at : collision.given) {
        Given& given = contents_.given.given[at];
        if (given.assignment == renewal.assignment) renewal.wanted.emplace_back(&collision, &given);
      }
    }
    if (!renewal.wanted.empty()) break;
  }
  renewal.done = 0;
  renewal.count = renewal.wanted.size();
}

/// Draws fresh values for those that go again. Where there are not enough, the last ones stay
/// behind. Asks the store where it must be asked first.
Action InsertBatch::renew(const Step& step) {
  while (renewal_.assignment < contents_.plan->size()) {
    const Assignment& target = (*contents_.plan)[renewal_.assignment];
    ids::Values& values = contents_.given.values[renewal_.assignment];
    while (renewal_.count > 0) {
      const std::size_t first = values.size();
      const auto drawn = target.strategy->next(renewal_.count, values);
      if (drawn) {
        renewed(first);
      } else if (drawn.error().code == ids::Errc::pending) {
        asked_ = true;
        return ask(target, step);
      } else {
        renewal_.count /= 2;
      }
    }
    leave_behind();
  }
  return decided(step);
}

/// The values from `first` on are there.
void InsertBatch::renewed(std::size_t first) {
  Renewal& renewal = renewal_;
  for (std::size_t i = 0; i < renewal.count; ++i, ++renewal.done) {
    Given& given = *renewal.wanted[renewal.done].second;
    given.value = static_cast<std::uint32_t>(first + i);
    taken_.erase(static_cast<std::size_t>(&given - contents_.given.given.data()));
  }
  renewal.count = std::min(renewal.count, renewal.wanted.size() - renewal.done);
}

/// No more values of this rule: on to the next.
void InsertBatch::leave_behind() {
  for (std::size_t i = renewal_.done; i < renewal_.wanted.size(); ++i) {
    renewal_.wanted[i].first->again = false;
  }
  ++renewal_.assignment;
  want_next_rule();
}

/// Together with all that has been waited for since the first duplicate, not beyond the deadline.
Action InsertBatch::ask(const Assignment& target, const Step& step) const {
  const nanoseconds left = target.rule->retry.deadline - (step.now - *first_duplicate_);
  return action::AskStore{
      target.strategy, renewal_.count,
      std::clamp<nanoseconds>(left, nanoseconds(0), target.strategy->patience())};
}

Action InsertBatch::answered(ids::Result<ids::Grant> grant, const Step& step) {
  ids::Values& values = contents_.given.values[renewal_.assignment];
  const std::size_t first = values.size();
  if (grant) {
    (*contents_.plan)[renewal_.assignment].strategy->accept(std::move(*grant), values);
    renewed(first);
  } else if (grant.error().code == ids::Errc::unavailable) {
    renewal_.count = 0;
  } else {
    renewal_.count /= 2;
  }
  return renew(step);
}

// ---- the end ---------------------------------------------------------------------------------

/// Whether an error in the reply must be replaced.
bool InsertBatch::refuses(std::span<const WriteError> errors) const {
  return std::ranges::any_of(errors, [&](const WriteError& error) {
    return error.code == kInvalidIdField &&
           std::ranges::binary_search(contents_.refused,
                                      sent_[static_cast<std::size_t>(error.index)], {},
                                      &RefusedDocument::index);
  });
}

/// The values that are stored now: not those of documents that failed, were not reached, or had
/// been stored with other values by an earlier command of this statement.
std::vector<Assigned> InsertBatch::report() const {
  std::vector<Assigned> report;
  const auto& errors = merge_.errors();
  if (!options_ || !options_->acknowledged || (options_->in_transaction && !errors.empty()))
    return report;
  const bool stops = options_->ordered && !errors.empty();
  for (const Given& given : contents_.given.given) {
    const Rule& rule = *(*contents_.plan)[given.assignment].rule;
    if (!rule.report || errors.contains(given.document)) continue;
    if (stops && given.document > errors.begin()->first) break;
    if (options_->has_txn_number && merge_.retried(options_->number_of(given.document))) continue;
    const ids::Values& values = contents_.given.values[given.assignment];
    report.push_back({given.document, rule.field, values.type(), values[given.value]});
  }
  return report;
}

/// Of an answer that accounts for every document: true if this value is in none that is stored.
bool InsertBatch::is_unused(const Given& given) const {
  const auto& errors = merge_.errors();
  if (errors.empty()) return false;
  if (options_->in_transaction || errors.contains(given.document)) return true;
  return options_->ordered && given.document > errors.begin()->first;
}

/// Values of documents that are not stored serve others. After a driver's replay nobody can say
/// which values an earlier execution has stored, nor after an error that does not deny it.
void InsertBatch::take_back_unused() const {
  if (!options_ || !options_->acknowledged || retried_ || merge_.errors().empty()) return;
  const bool denied = std::ranges::all_of(
      merge_.errors(), [](const auto& error) { return denies(error.second.view()); });
  if (!denied) return;
  std::vector<std::vector<std::uint32_t>> values(contents_.plan->size());
  for (std::size_t at = 0; at < contents_.given.given.size(); ++at) {
    const Given& given = contents_.given.given[at];
    const bool wanted = (*contents_.plan)[given.assignment].strategy->takes_back();
    if (!wanted || taken_.contains(at) || !is_unused(given)) continue;
    values[given.assignment].push_back(given.value);
  }
  take_back(values);
}

void InsertBatch::take_back(std::vector<std::vector<std::uint32_t>>& values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].empty()) continue;
    std::ranges::sort(values[i]);
    (*contents_.plan)[i].strategy->take_back(contents_.given.values[i], values[i]);
  }
}

/// Nothing of the only command has been stored.
void InsertBatch::take_back_all() const {
  std::vector<std::vector<std::uint32_t>> values(contents_.plan->size());
  for (const Given& given : contents_.given.given) {
    const bool wanted = (*contents_.plan)[given.assignment].strategy->takes_back();
    if (wanted) values[given.assignment].push_back(given.value);
  }
  take_back(values);
}

/// A reply that needs no change keeps its bytes.
Action InsertBatch::finish_or_relay(const Step& step) {
  const auto reported = report();
  if (!only_ || asked_ || replaces_errors_ || !reported.empty()) return finish(step);
  take_back_unused();
  return action::Relay{};
}

Action InsertBatch::finish(const Step& step) {
  take_back_unused();
  step.workspace.reply.clear();
  const std::int32_t request_id = message_.header().request_id;
  if (merge_.empty()) {
    append_readdressed(*wire::OpMsgView::parse(failure_.view()), request_id, step.workspace.reply);
  } else {
    merge_.append(request_id, contents_.refused, report(), step.workspace.reply);
  }
  return action::Reply{step.workspace.reply.view()};
}

}  // namespace idproxy::rewrite
