#include "idproxy/rewrite/write_exchange.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <utility>

#include "idproxy/base/text.hpp"
#include "idproxy/bson/builder.hpp"
#include "idproxy/rewrite/connection_memory.hpp"
#include "idproxy/rewrite/sources.hpp"
#include "rewrite/guards.hpp"
#include "rewrite/value_reservations.hpp"
#include "rewrite/write_batch.hpp"
#include "rewrite/writes.hpp"

namespace idproxy::rewrite {
namespace {

constexpr auto kLimit = static_cast<std::size_t>(wire::kMaxMessageSize);

}  // namespace

WriteExchange::WriteExchange(Bytes request, ConnectionMemory* memory)
    : Conversation(request), memory_(memory) {}

WriteExchange::~WriteExchange() {
  // The client disconnected while the exchange was waiting for the store.
  try {
    if (!sent_) take_back_all();
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the values become a gap
  }
}

// ---- the request -----------------------------------------------------------------------------

Action WriteExchange::begin(WriteRequest&& request, const Received& received) {
  const Context& context = received.context;
  Workspace& workspace = received.workspace;
  write_ = std::move(request);
  if (write_.command.repeats_stmt_id()) {
    return fail_write({ErrorCode::invalid_options, "mongo-idproxy: stmtIds must be distinct"},
                      workspace);
  }
  started_ = since_ = now_ = context.clock.monotonic();
  workspace.lend_to(given_);
  if (std::ranges::any_of(*write_.plan, &Assignment::may_depend_on_time)) {
    write_.now = std::chrono::duration_cast<std::chrono::seconds>(context.clock.wall());
  }
  ScanResult result = scan(write_, workspace, given_);
  driver_made_ = result.driver_made;
  leaves_zero_ = result.leaves_zero;
  if (result.kind == ScanResult::Kind::failed) return fail_write(result.error, workspace);
  forwarded_ = std::move(result.forwarded);
  if (result.kind == ScanResult::Kind::unchanged) {
    count_assigned(given_);
    return action::Relay{};
  }
  statements_ = result.statements;
  refused_ = std::move(result.refused);
  refused_documents_ = refused_.size();
  assigned_ = given_.given.size();
  size_ = result.size;
  as_batch_ = needs_turn(*write_.plan, given_) || reserves_values();
  if (as_batch_) {
    if (auto fault = fault_in_batch()) return fail_write(*std::move(fault), workspace);
  }
  keep_original(write_.message.message(), received.owner, workspace);
  return go_on(context, workspace);
}

/// The guards come first: a counter that does not exist yet then finds its first number by their
/// index. They come again before anything is sent, since a number may have taken long.
Action WriteExchange::go_on(const Context& context, Workspace& workspace) {
  if (const auto otherwise = await_guards(workspace)) return *otherwise;
  if (const auto otherwise = draw_values(workspace)) return *otherwise;
  return send_assigned(context, workspace);
}

/// Returns nothing once the write may be sent; else the action that fails it, relays it or waits.
std::optional<Action> WriteExchange::await_guards(Workspace& workspace) {
  GuardVerdict verdict = ask_guards(*write_.plan, given_, now_);
  uuid_ = uuid_for(verdict, write_.message.body(), write_.command.kind);
  switch (verdict.kind) {
    case GuardVerdict::Kind::ready:
      return std::nullopt;
    case GuardVerdict::Kind::left_alone:
      return send_unchanged(*verdict.assignment);
    case GuardVerdict::Kind::refused:
      return fail_write(no_values(write_.message, write_.ns(), *verdict.assignment, verdict.error),
                        workspace);
    case GuardVerdict::Kind::waits:
      break;
  }
  guard_of_ = verdict.assignment;
  const auto left = ids::StoreSource::kPatience - (now_ - started_);
  return action::AskStore{guard_of_->guard.get(), 0, std::max(left, std::chrono::nanoseconds(0))};
}

/// The collection turned out to be a view or a time-series collection, as the guard of this one
/// says.
Action WriteExchange::send_unchanged(const Assignment& left_alone) {
  take_back_all();
  look_into_original();
  assigned_ = refused_documents_ = 0;
  forwarded_.clear();
  const BatchCommand& command = write_.command;
  if (command.kind == WriteKind::insert &&
      left_alone.store->readiness(left_alone.rule_index, command.db, command.collection)
          .is_time_series) {
    note_past({{std::string(command.db), std::string(command.collection)},
               ForwardReason::time_series,
               write_.plan});
  }
  sent_ = is_plain_ = true;
  awaits_reply_ = acknowledged_;
  message_.start(original_.view());
  message_.keep(0, original_.size());
  return action::Send{&message_, original()};
}

/// Draws the values that are missing. Returns nothing once all are there; else the action that
/// fails the write or asks the store.
std::optional<Action> WriteExchange::draw_values(Workspace& workspace) {
  while (!drawing_.is_done(*write_.plan, given_)) {
    const Assignment& assignment = (*write_.plan)[drawing_.assignment()];
    const auto drawn = drawing_.draw(*write_.plan, given_);
    if (drawn.needs_store()) return ask();
    if (!drawn) {
      return fail_write(no_values(write_.message, write_.ns(), assignment, drawn.error()),
                        workspace);
    }
    // Many rules on many documents can exceed the limit: check before memory is spent on writing
    // the message.
    if (too_many_bytes()) return fail_write(too_large(), workspace);
  }
  return std::nullopt;
}

/// All questions to the store for one write share the time of one question.
Action WriteExchange::ask() const {
  const Need need = drawing_.need(*write_.plan, given_);
  const auto left = need.source->patience() - (now_ - started_);
  return action::AskStore{need.source, need.count, std::max(left, std::chrono::nanoseconds(0))};
}

bool WriteExchange::too_many_bytes() const {
  std::size_t size = size_ + drawing_.bytes();
  for (const ids::Values& values : given_.values) size += values.bytes();
  return size > kMostWithIds;
}

Action WriteExchange::answered(ids::Result<ids::Grant> grant, const Context& context,
                               Workspace& workspace) {
  now_ = context.clock.monotonic();
  if (batch_ != nullptr) {
    refill(workspace);
    return begun(batch_->answered(std::move(grant), {now_, context.random, workspace, message_}));
  }
  look_into_original();
  has_waited_ = true;
  const bool was_guard = guard_of_ != nullptr;
  const Assignment& assignment =
      was_guard ? *std::exchange(guard_of_, nullptr) : (*write_.plan)[drawing_.assignment()];
  const auto fail = [&](const ids::Error& error) {
    return fail_write(no_values(write_.message, write_.ns(), assignment, error), workspace);
  };
  if (was_guard) {
    if (!grant) return fail(grant.error());
  } else {
    const auto drawn = drawing_.answered(std::move(grant), *write_.plan, given_);
    if (!drawn) return fail(drawn.error());
    if (too_many_bytes()) return fail_write(too_large(), workspace);
  }
  return go_on(context, workspace);
}

Action WriteExchange::send_assigned(const Context& context, Workspace& workspace) {
  refill(workspace);
  if (as_batch_) return send_as_batch(context, workspace);
  if (statements_ > kPartStatements && acknowledged_ && assigned_ > 0) {
    const auto options = divisible(write_.message, statements_);
    if (options && !options->ordered && !options->in_transaction && separable(write_)) {
      return send_in_parts(context, workspace);
    }
  }
  if (uuid_) return send_to_guarded(context, workspace);
  if (has_waited_) {
    GivenValues same;
    static_cast<void>(scan(write_, workspace, same));
  }
  emit(write_, given_, workspace, message_);
  return message_.size() <= kLimit ? send() : send_too_large(context, workspace);
}

/// Sends the write with the UUID of the collection whose index was seen.
Action WriteExchange::send_to_guarded(const Context& context, Workspace& workspace) {
  Buffer fields;
  bson::Scope all(fields);
  append_uuid(*uuid_, fields);
  all.close();
  if (!emit_with(fields.view(), write_, given_, workspace, message_)) {
    return fail_write({ErrorCode::operation_failed,
                       "mongo-idproxy: the keys of the array in a write must be \"0\", \"1\", … "
                       "where a rule demands a unique index"},
                      workspace);
  }
  return message_.size() <= kLimit ? send() : send_too_large(context, workspace);
}

/// True if the documents' values must be reserved before they are sent.
bool WriteExchange::reserves_values() const {
  return write_.command.kind == WriteKind::insert && reserves(*write_.plan);
}

/// Why a write that needs them cannot get numbers of a sequence without gaps, or reserved values.
/// For numbers, the proxy must learn which are stored. For both it must be able to send the
/// documents in other commands.
std::optional<CommandError> WriteExchange::fault_in_batch() const {
  const bool in_turn = needs_turn(*write_.plan, given_);
  const auto options = divisible(write_.message, statements_);
  const auto concern = bson::find(write_.message.body(), "writeConcern");
  const auto w = concern && concern->type == bson::Type::document ? bson::find(concern->value, "w")
                                                                  : std::nullopt;
  std::string why;
  if (in_turn && (!acknowledged_ || (w && w->as_integer() == 0))) {
    why = "a write with {w: 0} does not tell which numbers are stored";
  } else if (!options || (statements_ > 1 && !separable(write_))) {
    why = "this write cannot be sent in several commands";
  } else {
    return std::nullopt;
  }
  return CommandError{ErrorCode::operation_failed,
                      "mongo-idproxy: " + write_.ns() +
                          (in_turn ? " has a field whose numbers have no gaps (strategy gapless)"
                                   : " has a field whose values are reserved (reserve)") +
                          ", and " + why};
}

/// Sends the write as a batch, which reserves values and draws the numbers of sequences.
Action WriteExchange::send_as_batch(const Context& context, Workspace& workspace) {
  open_batch(BatchSent::nothing);
  return begun(batch_->send({now_, context.random, workspace, message_}));
}

/// `action` is the batch's. If it is the first that sends something, the write has begun; if it
/// answers the client instead, nothing will be sent.
Action WriteExchange::begun(const Action& action) {
  if (sent_) return action;
  if (std::holds_alternative<action::Send>(action)) {
    count_assigned(batch_->given());
    sent_ = true;
    awaits_reply_ = acknowledged_;
  } else if (std::holds_alternative<action::Reply>(action)) {
    take_back_all();
    assigned_ = 0;
    forwarded_.clear();
    if (!acknowledged_) return action::Reply{};
  }
  return action;
}

/// Sends the write as one command.
Action WriteExchange::send() {
  count_assigned(given_);
  sent_ = true;
  awaits_reply_ = acknowledged_;
  return action::Send{&message_, original()};
}

/// Sends the write as several commands if possible; else it fails.
Action WriteExchange::send_too_large(const Context& context, Workspace& workspace) {
  const bool possible =
      acknowledged_ && divisible(write_.message, statements_) && separable(write_);
  return possible ? send_in_parts(context, workspace) : fail_write(too_large(), workspace);
}

Action WriteExchange::send_in_parts(const Context& context, Workspace& workspace) {
  count_assigned(given_);
  sent_ = true;
  awaits_reply_ = true;
  open_batch(BatchSent::nothing);
  return batch_->send({now_, context.random, workspace, message_});
}

void WriteExchange::count_assigned(const GivenValues& given) const {
  for (const Forwarded& each : forwarded_) {
    each.count();
  }
  for (std::size_t i = 0; i < write_.plan->size(); ++i) {
    RuleOutcomes& outcomes = *(*write_.plan)[i].outcomes;
    const std::size_t values = given.wanted.empty() ? assigned_ : given.wanted[i];
    outcomes.assigned += values;
    if (!acknowledged_) outcomes.unacknowledged += values;
  }
}

/// Makes write_ refer to original_, because the received bytes may be gone.
void WriteExchange::look_into_original() {
  if (write_.message.message().data() == original_.data()) return;
  write_ = write_.in(original_.view());
}

Action WriteExchange::fail_write(CommandError error, Workspace& workspace) {
  take_back_all();
  assigned_ = 0;
  forwarded_.clear();
  return fail_request(write_.message.message(), std::move(error), workspace);
}

/// Returns all values to their strategies, because nothing has been sent with them.
void WriteExchange::take_back_all() {
  drawing_.take_back(given_);
  if (batch_ != nullptr) given_ = batch_->take_given();
  for (std::size_t i = 0; i < given_.values.size(); ++i) {
    const ids::Values& values = given_.values[i];
    std::vector<std::uint32_t> all(values.size());
    std::iota(all.begin(), all.end(), 0U);
    by_source(*write_.plan, given_, i, std::move(all), [&](ids::Strategy& source, auto which) {
      if (ids::StoreBacked* lender = source.store_backed()) lender->take_back(values, which);
    });
  }
  given_.values.clear();
}

// ---- replies ---------------------------------------------------------------------------------

namespace {

enum class Look { at_nothing, at_all, malformed };

/// Checks whether a reply contains anything that concerns the proxy; nearly none does.
Look look(Bytes body) {
  Look result = Look::at_nothing;
  bson::Elements fields(body);
  while (const auto field = fields.next()) {
    if (equals(field->key, "code") || equals(field->key, "writeErrors")) result = Look::at_all;
  }
  return fields.malformed() ? Look::malformed : result;
}

}  // namespace

Action WriteExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  const auto view = single_reply(message);
  if (!view) return action::Close{};
  if (is_plain_) return action::Relay{};
  const Look needed = look(view->body());
  if (needed == Look::malformed) return action::Close{};
  if (batch_ == nullptr) {
    if (needed == Look::at_nothing && !wants_every_reply()) return action::Relay{};
    open_batch(BatchSent::whole);
  }
  since_ = now_ = context.clock.monotonic();
  refill(workspace);
  return batch_->reply(*view, {now_, context.random, workspace, message_});
}

/// True if the exchange must handle even a reply without errors: to report the assigned values, to
/// give back those of upserts that found a document, to end a row of aborted transactions or of
/// duplicates, or because the server loses writes.
bool WriteExchange::wants_every_reply() const {
  const bool upserts = write_.command.kind != WriteKind::insert;
  const auto wants = [&](ids::Strategy& source) {
    const ids::DuplicateObserver* observer = source.duplicate_observer();
    return (upserts && source.store_backed() != nullptr) ||
           (observer != nullptr && observer->in_a_row());
  };
  const bool any = std::ranges::any_of(*write_.plan, [&](const Assignment& assignment) {
    return assignment.rule->report || wants(*assignment.strategy) ||
           assignment.outcomes->in_a_row();
  });
  const bool may_lose = memory_ != nullptr && memory_->loses_writes();
  return any || may_lose ||
         std::ranges::any_of(given_.sequences, [&](const GivenSequences& sequences) {
           return std::ranges::any_of(sequences.all,
                                      [&](const auto& sequence) { return wants(*sequence); });
         });
}

void WriteExchange::open_batch(BatchSent sent) {
  look_into_original();
  auto command = make_command(std::move(original_), write_, refused_);
  batch_ = std::make_unique<WriteBatch>(
      WriteBatch::Contents{std::move(command), write_.plan, started_, std::move(given_),
                           statements_, write_.command.kind, !acknowledged_, uuid_,
                           memory_ == nullptr || memory_->tells_retried(),
                           memory_ != nullptr && memory_->loses_writes()},
      sent);
  if (sent == BatchSent::nothing && reserves_values()) batch_->reserve(write_, refused_);
}

Action WriteExchange::resume(const Context& context, Workspace& workspace) {
  now_ = context.clock.monotonic();
  refill(workspace);
  return batch_->send({now_, context.random, workspace, message_});
}

Buffer WriteExchange::release(Workspace& workspace) {
  workspace.give_back(std::move(given_));
  Buffer original = Conversation::release(workspace);
  return batch_ == nullptr ? std::move(original) : batch_->release();
}

Bytes WriteExchange::original() const {
  return batch_ == nullptr ? original_.view() : batch_->original();
}

std::int32_t WriteExchange::request_id() const {
  return batch_ == nullptr ? request_id_ : batch_->request_id();
}

const Assignment* WriteExchange::lost_writes() const {
  return batch_ != nullptr && batch_->lost_writes() ? &write_.plan->front() : nullptr;
}

std::optional<GivenUp> WriteExchange::given_up() const {
  return batch_ == nullptr ? std::nullopt : batch_->given_up();
}

}  // namespace idproxy::rewrite
