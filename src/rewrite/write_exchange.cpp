#include "idproxy/rewrite/write_exchange.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "idproxy/base/bytes.hpp"
#include "idproxy/base/words.hpp"
#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/memory.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "rewrite/batch.hpp"
#include "rewrite/bulk_write.hpp"
#include "rewrite/find_and_modify.hpp"
#include "rewrite/turn_stage.hpp"
#include "rewrite/upsert_command.hpp"

namespace idproxy::rewrite {
namespace {

/// True if a reply contains anything that concerns the proxy; nearly none does. Nothing if it is
/// malformed.
std::optional<bool> concerns_us(Bytes body, Workspace& workspace) {
  KnownFields& fields = workspace.reply_fields;
  if (!fields.read(body)) return std::nullopt;
  const auto* const errors = fields[Workspace::n_errors];
  return fields[Workspace::code] != nullptr || fields[Workspace::write_errors] != nullptr ||
         (errors != nullptr && (errors->as_integer() != 0 || fields.is_twice(Workspace::n_errors)));
}

/// True if some statement may give its number to a document that it finds.
bool some_may_be_found(const GivenValues& given) {
  return std::ranges::any_of(
      given.given, [&](const Given& each) { return given.may_be_used_by_found(each.statement); });
}

/// True if the write would do without what the proxy adds: pipelines, and values of replacements.
bool only_keeps(const Plan& plan, const GivenValues& given) {
  return !given.kept.empty() && std::ranges::all_of(given.given, [&](const Given& each) {
    return given.may_be_used_by_found(each.statement) &&
           plan[each.assignment].rule->upserts != Upserts::refuse;
  });
}

/// Counts what a write without values means that has no room for them, and cannot be divided.
void count_too_large(const Plan& plan, const GivenValues& given, ExchangeFacts& facts) {
  for (const Kept& each : given.kept) {
    count({&plan[each.assignment], LossReason::too_large, 1}, facts.taken_away);
  }
  for (const Given& each : given.given) {
    count({&plan[each.assignment], ForwardReason::too_large, 1, false}, facts.forwarded);
  }
}

void count_odd(const ExchangeFacts& facts) {
  for (const Forwarded& each : facts.forwarded) each.count();
  for (const TakenAway& each : facts.taken_away) each.count();
}

/// True if even a reply without errors must be handled: to report the assigned values, to give back
/// those of upserts that found a document, or to end a row of aborted transactions or of
/// duplicates.
bool wants_reply(const WriteRequest& write, const GivenValues& given) {
  const bool may_find =
      write.command.kind != WriteKind::insert && write.command.kind != WriteKind::bulk_write;
  const auto wants = [&](const std::shared_ptr<ids::Source>& source) {
    return source != nullptr && ((may_find && source->lends()) || source->in_a_row());
  };
  return std::ranges::any_of(*write.plan,
                             [&](const Assignment& each) {
                               return each.rule->report || wants(each.source) ||
                                      each.outcomes->in_a_row();
                             }) ||
         std::ranges::any_of(given.sequences, [&](const GivenSequences& sequences) {
           return std::ranges::any_of(sequences.all, wants);
         });
}

}  // namespace

WriteExchange::WriteExchange(WriteRequest&& request, const Received& received,
                             ConnectionMemory* memory)
    : WriteState(std::move(request), received, memory), rights_(request_, given_, memory) {
  facts_.command_kind = request_.command.kind;
  facts_.since = started_;
}

WriteExchange::~WriteExchange() {
  try {
    end();                           // a connection was lost meanwhile
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the values become a gap
  }
}

// ---- the whole write ---------------------------------------------------------------------------

// g++ takes the delete of every coroutine for that of an operator new with its size alone.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
/// `owner`: as in Received.
Steps WriteExchange::write(Buffer* owner) {
  if (const auto end = scan_statements(owner)) co_return *end;
  // One for all its loops: malloc() keeps blocks of up to 1,032 bytes at hand for each thread, and
  // the coroutine is such a block.
  std::optional<Need> need;
  // Without upsert, the server would not ask whether the client may insert.
  bool without_upsert = sends_without_upsert();
  while ((need = without_upsert ? rights_.demand() : std::nullopt)) {
    co_await ask(*need);
    if (const auto end = accept(*need)) co_return *end;
    without_upsert = sends_without_upsert();
  }
  if (without_upsert) {
    co_await send_without_upsert();
    if (has_found()) co_return action::Relay{};
  }
  do {
    // What its stages need.
    while ((need = lacks())) {
      co_await ask(*need);
      if (const auto end = accept(*need)) co_return *end;
    }
    co_await send();
    if (is_relayed()) co_return action::Relay{};
    // What the reply to a bulkWrite has left for getMore.
    while (const auto next = batch_->fetch()) co_await *next;
    // Sorts what is stored from what has collided, for which it may have to ask the server.
    while (const auto next = batch_->take()) co_await *next;
    // Fresh values for what has collided.
    while ((need = batch_->fresh().need(moment()))) {
      co_await ask(*need);
      if (const auto end = accept(*need)) co_return *end;
    }
    // A pause, before some statements go again; or else the next ones go, or none.
    if (const auto next = batch_->decide()) co_await *next;
  } while (!batch_->is_done());
  if (const auto question = batch_->ask_what_is_stored()) {
    co_await *question;
    batch_->told_what_is_stored();
  }
  co_return batch_->answer();
}
#pragma GCC diagnostic pop

Action WriteExchange::go_on() {
  Action action = steps_.next();
  if (batch_ != nullptr) batch_->tell(facts_);
  facts_.not_permitted = rights_.not_permitted();
  const bool sends = std::holds_alternative<action::Send>(action);
  const bool relays = std::holds_alternative<action::Relay>(action);
  const bool replies = std::holds_alternative<action::Reply>(action);
  asks_server_ = std::holds_alternative<action::AskServer>(action);
  if (sends) awaits_reply_ = acknowledged_;
  const bool asks = asks_ || without_upsert_ == WithoutUpsert::under_way;
  if ((relays || (sends && !asks)) && !std::exchange(sent_, true)) count_sent();
  if (relays || replies || std::holds_alternative<action::Close>(action)) end();
  if (!replies || sent_) return action;
  facts_.assigned = 0;
  facts_.forwarded.clear();
  facts_.taken_away.clear();
  return acknowledged_ ? action : action::Reply{};
}

/// The only one, whatever the write has come to.
void WriteExchange::end() {
  if (!std::exchange(ended_, true)) take_back();
}

// ---- events ------------------------------------------------------------------------------------

void WriteExchange::begin_event(const Context& context, Workspace& workspace) {
  context_ = &context;
  workspace_ = &workspace;
}

/// Only of events that change something: most replies need no clock, and no memory to send from.
void WriteExchange::begin_step() {
  now_ = context_->clock.monotonic();
  if (batch_ != nullptr) refill(*workspace_);
}

/// After others of the thread may have scanned their messages. Returns the time.
std::chrono::nanoseconds WriteExchange::begin_later_step() {
  begin_step();
  refer_to_original();
  has_waited_ = true;
  return now_;
}

Action WriteExchange::begin(const Received& received) {
  begin_event(received.context, received.workspace);
  steps_ = write(received.owner);
  return go_on();
}

Action WriteExchange::reply(Bytes message, const Context& context, Workspace& workspace) {
  begin_event(context, workspace);
  reply_ = single_reply(message);
  if (!reply_) return action::Close{};
  const bool answers = std::exchange(asks_, false);
  if (!answers && !steps_.awaits<action::Send>()) return action::Close{};
  const auto concerns =
      is_unchanged_ ? std::optional(false) : concerns_us(reply_->body(), workspace);
  if (!concerns) return action::Close{};
  if (answers) {
    facts_.since = begin_later_step();
    return go_on();
  }
  is_empty_ = !*concerns;
  const bool tells = !is_empty_ || is_unchanged_ || !rights_.is_shown();
  if (!std::exchange(rights_noted_, without_upsert_ != WithoutUpsert::under_way) && tells)
    note_rights();
  if (batch_ != nullptr) {
    begin_step();
    facts_.since = now_;
  }
  return go_on();
}

/// What the reply to its first command says of the client's rights.
void WriteExchange::note_rights() {
  const auto read = WriteReply::read(reply_->body(), kMaxBatch);
  if (!read) return;
  if (says_not_permitted(*read))
    return rights_.refused({request_.plan->begin(), request_.plan->end()});
  // Without values, it was no insert.
  const bool inserts = !given_.given.empty() && without_upsert_ != WithoutUpsert::under_way;
  if (read->ok && !is_unchanged_ && inserts) rights_.carried_out(now_);
}

Action WriteExchange::answered(ids::Result<ids::Grant> grant, const Context& context,
                               Workspace& workspace) {
  if (!steps_.awaits<action::AskStore>()) return action::Close{};
  begin_event(context, workspace);
  begin_later_step();
  grant_ = std::move(grant);
  return go_on();
}

Action WriteExchange::resume(const Context& context, Workspace& workspace) {
  if (!steps_.awaits<action::Wait>()) return action::Close{};
  begin_event(context, workspace);
  begin_step();
  return go_on();
}

Buffer WriteExchange::release(Workspace& workspace) {
  end();
  steps_ = {};
  batch_.reset();
  workspace.give_back(std::move(lent_));
  return Conversation::release(workspace);
}

// ---- before a command --------------------------------------------------------------------------

/// Finds out which statements get values.
std::optional<Action> WriteExchange::scan_statements(Buffer* owner) {
  if (request_.command.repeats_stmt_id()) {
    return refuse({ErrorCode::invalid_options, "mongo-idproxy: stmtIds must be distinct"});
  }
  if (rights_.is_shown()) {
    if (auto fault = bind()) return refuse(*std::move(fault));
  }
  if (is_unchanged_) {
    note_time_series();
    sent_ = true;
    return action::Relay{};
  }
  if (auto end = scan()) return end;
  // The operations of a bulkWrite may need fewer rights than others could.
  if (is_bulk() && !rights_.is_shown() && !rights_.need(moment()) && rights_.is_shown()) {
    if (auto end = scan_again()) return end;
  }
  keep_original(request_.message.message(), owner, *workspace_);
  return std::nullopt;
}

/// Has the plan say where values come from, as far as the client may write there. Sets
/// is_unchanged_ if no rule applies after all.
std::optional<CommandError> WriteExchange::bind() {
  if (request_.plan->is_bound()) return std::nullopt;
  for (const Assignment& each : *request_.plan) {
    if (!rights_.admits(each)) continue;
    const auto [db, collection] = split_ns(each.ns);
    request_.known->admit(db, collection);
  }
  WriteRequest bound = request_;  // which stays as it is if memory runs out
  bound.plan = nullptr;
  std::optional<CommandError> fault;
  if (is_bulk()) {
    static_cast<void>(read_namespaces(bound, *request_.known, fault));
  } else {
    bound.plan = request_.known->plan(request_.command.db(), request_.command.collection());
  }
  is_unchanged_ = bound.plan == nullptr && !fault;
  if (bound.plan == nullptr) bound.plan = request_.plan;
  request_ = std::move(bound);
  return fault;
}

std::optional<Action> WriteExchange::scan() {
  guards_.reset();
  if (request_.plan->is_guarded()) guards_.emplace(request_, given_);
  facts_.assigned = 0;
  if (request_.plan->may_depend_on_time()) {
    request_.now = std::chrono::duration_cast<std::chrono::seconds>(context_->clock.wall());
  }
  given_.opening = rights_.is_shown() ? ids::Opening::any : ids::Opening::only_used;
  ScanResult result = is_insert() ? workspace_->insert.scan(request_, given_)
                                  : scan_updates(request_, given_, workspace_->insert);
  facts_.driver_made = result.driver_made;
  facts_.leaves_zero = result.leaves_zero;
  if (result.kind == ScanResult::Kind::failed) return refuse(result.error);
  facts_.forwarded = std::move(result.forwarded);
  facts_.taken_away = std::move(result.taken_away);
  statements_ = result.statements;
  facts_.documents = is_insert() ? statements_ : 0;
  if (result.kind == ScanResult::Kind::unchanged) return action::Relay{};
  if (is_bulk() || request_.command.is_encrypted) {
    if (auto fault = fault_of_encryption(request_, given_)) return refuse(*std::move(fault));
  }
  refused_ = std::move(result.refused);
  facts_.refused = refused_.size();
  facts_.assigned = given_.given.size();
  drawing_.emplace(*request_.plan, given_, result.size);
  list_stages();
  wants_results_ = is_bulk() && wants_results(request_, given_);
  if (wants_results_) request_.all_results = bson::is_true(request_.message.body(), "errorsOnly");
  const bool needs_batch =
      needs_turn(*request_.plan, given_) || (is_insert() && request_.plan->reserves());
  as_batch_ = needs_batch || without_upsert_ == WithoutUpsert::found_nothing;
  if (needs_batch) {
    if (auto fault = fault_in_batch()) return refuse(*std::move(fault));
  }
  return std::nullopt;
}

/// With the client's right shown, the store says more; and what was found without it is found
/// again.
std::optional<Action> WriteExchange::scan_again() {
  take_back();
  given_.clear();
  stages_ = {};  // they refer to the plan
  patient_since_ = now_;
  if (auto fault = bind()) return refuse(*std::move(fault));
  if (is_unchanged_) return std::nullopt;
  const auto end = scan();
  // Relay would be too late: the received bytes may be gone.
  is_unchanged_ = end && std::holds_alternative<action::Relay>(*end);
  if (is_unchanged_) return std::nullopt;
  rights_.replanned();
  return end;
}

/// The guards come first: a counter that does not exist yet then finds its first number by their
/// index. They come again before anything is sent, since a number may have taken long.
void WriteExchange::list_stages() {
  stages_ = {
      &rights_,
      guards_ ? &*guards_ : nullptr,
      &*drawing_,
      batch_ ? &batch_->fresh() : nullptr,
      batch_ ? batch_->reservations() : nullptr,
      batch_ ? batch_->turns() : nullptr,
  };
}

Moment WriteExchange::moment() const {
  return {now_, patient_since_, sent_,
          batch_ == nullptr ? std::span<const std::int32_t>() : batch_->todo()};
}

/// What the next command lacks; nothing once it can be sent, or because send() will end the write.
/// Before its client has shown that it may write there, the store is asked for nothing; and never
/// for documents that nobody will store.
std::optional<Need> WriteExchange::lacks() {
  auto need = is_unchanged_ ? std::nullopt : first_need();
  if (sent_ || !need || (need->source == nullptr && need->stage != &rights_)) return need;
  is_unchanged_ = is_insert() && stores_nothing(request_.command, request_.message.body());
  if (is_unchanged_) return std::nullopt;
  if (rights_.is_shown() || need->stage == &rights_) return need;
  auto right = rights_.demand();
  return right ? right : need;
}

std::optional<Need> WriteExchange::first_need() {
  if (batch_ != nullptr && batch_->has_expired()) return std::nullopt;
  for (Stage* stage : stages_) {
    auto need = stage == nullptr ? std::nullopt : stage->need(moment());
    if (!need) continue;
    if (!need->is_left_alone || batch_ != nullptr || is_bulk()) return need;
    is_unchanged_ = true;
    facts_.forwarded.clear();
    return std::nullopt;
  }
  if (batch_ != nullptr || !as_batch_ || drawing_->is_too_large()) return std::nullopt;
  open_batch();
  return first_need();
}

Action WriteExchange::ask(const Need& need) {
  if (need.error) return no_values_for(*need.assignment, *need.error);
  if (need.assignment != nullptr) {
    return action::AskStore{need.source, need.assignment->outcomes, need.count,
                            std::max(need.patience, std::chrono::nanoseconds(0))};
  }
  asks_ = true;
  // Of its right to write the server says nothing to other questions.
  rights_noted_ = rights_noted_ || need.stage != &rights_;
  refill(*workspace_);
  const auto time_left = batch_ == nullptr ? std::nullopt : batch_->time_left();
  const Action action =
      need.stage->ask({message_, request_id_, without_upsert_ == WithoutUpsert::not_sent, time_left,
                       context_->random, *workspace_});
  const bool is_too_large = std::holds_alternative<action::Send>(action) && !fits();
  return is_too_large ? refuse(too_large()) : action;
}

/// The answer to what ask() has asked.
std::optional<Action> WriteExchange::accept(const Need& need) {
  const bool was_shown = rights_.is_shown();
  const auto end = need.stage->accept({grant_, reply_, now_, *workspace_});
  if (!end) return was_shown == rights_.is_shown() ? std::nullopt : scan_again();
  if (const Action* action = std::get_if<Action>(&*end)) return *action;
  const ids::Error& error = std::get<ids::Error>(*end);
  const bool is_of_turn = batch_ != nullptr && need.stage == batch_->turns();
  const bool may_come =
      is_of_turn && error.code == ids::Errc::unguarded && guards_ && guards_->lost_index(moment());
  return may_come ? std::nullopt : std::optional(no_values_for(*need.assignment, error));
}

/// Why a write that needs them cannot get numbers of a sequence without gaps, or reserved values.
/// For numbers, the proxy must learn which are stored. For both it must be able to send the
/// documents in other commands.
std::optional<CommandError> WriteExchange::fault_in_batch() const {
  const bool in_turn = needs_turn(*request_.plan, given_);
  const auto concern = bson::find(request_.message.body(), "writeConcern", bson::Type::document);
  const bool is_blind = concern && bson::find_integer(concern->value, "w") == 0;
  // Once reserved, the values of an unacknowledged insert go in one command, and never again.
  const bool goes_once = !in_turn && (!acknowledged_ || is_blind);
  const auto options =
      goes_once ? request_.command.options : request_.command.divisible(statements_);
  std::string why;
  if (in_turn && (!acknowledged_ || is_blind)) {
    why = "a write with {w: 0} does not tell which numbers are stored";
  } else if (!options || (statements_ > 1 && !separable(request_))) {
    why = "this write cannot be sent in several commands";
  } else if (in_turn && options->in_transaction && !sends_without_upsert() &&
             some_may_be_found(given_)) {
    why =
        "in a transaction nobody can read which numbers replacements with upsert have used: send "
        "each in a command of its own";
  } else {
    return std::nullopt;
  }
  return CommandError{ErrorCode::operation_failed,
                      "mongo-idproxy: " + request_.ns() +
                          (in_turn ? " has a field whose numbers have no gaps (strategy gapless)"
                                   : " has a field whose values are reserved (reserve)") +
                          ", and " + why};
}

/// Statements that have collided keep their errors. Otherwise nobody could tell the client about
/// the statements that were never sent, so that the whole command fails.
Action WriteExchange::no_values_for(const Assignment& rule, const ids::Error& error) {
  const auto end =
      batch_ == nullptr ? std::nullopt : batch_->keep_errors(batch_->todo(), RetryBound::no_value);
  return end ? *end : fail(no_values(request_.command, rule, error));
}

Action WriteExchange::fail(CommandError error) {
  const Bytes client = request_.message.message();
  const bool has_begun = batch_ != nullptr && batch_->has_begun();
  error.repeats_write = acknowledged_ && !has_begun && may_repeat_write(client);
  return fail_with(client, error, *workspace_);
}

/// The request itself is the reason: it counts for one of the rules.
Action WriteExchange::refuse(CommandError error) {
  constexpr std::string_view kOurs = "mongo-idproxy: ";
  std::string_view reason = error.message;
  if (reason.starts_with(kOurs)) reason.remove_prefix(kOurs.size());
  const Assignment& rule = request_.plan->front();
  // Who has not logged in would be refused by the server, too.
  const bool counts = memory_ == nullptr || !memory_->is_stranger();
  if (counts) rule.outcomes->refuse(rule.ns, std::string(reason));
  return fail(std::move(error));
}

/// Returns to their strategies the values that are certainly not stored: all of them if nothing has
/// been sent. If the server has the whole write, and its reply shows no error, it has stored them.
void WriteExchange::take_back() {
  if (sent_ && batch_ == nullptr) return;
  for (Stage* stage : stages_) {
    if (stage == nullptr) continue;
    stage->ended([this](std::int32_t each) { return !batch_ || batch_->is_unstored(each); });
  }
  give_back(*request_.plan, given_,
            [this](std::size_t at) { return !batch_ || batch_->is_unused(at); });
}

// ---- without upsert first ----------------------------------------------------------------------

/// True for a replacement in a command of its own that may insert a document, and would take a
/// value away from one that it finds: what ODMs send to save a document.
bool WriteExchange::sends_without_upsert() const {
  if (is_unchanged_ || statements_ != 1 || given_.kept.empty() || !acknowledged_) return false;
  const UpsertParts& only = given_.upserts.front();
  return only.is_replacement && only.kind == UpsertParts::Kind::upsert && goes_alone(request_);
}

/// With the client's txnNumber: the server notes no statement that has changed nothing, so that the
/// one with upsert is the first one (observed, 4.4.2 to 6.0.5).
Action WriteExchange::send_without_upsert() {
  without_upsert_ = WithoutUpsert::under_way;
  facts_.assigned = 0;
  refill(*workspace_);
  rewrite::emit(request_, given_, workspace_->insert, message_, UpsertEdit::As::update);
  if (!fits()) return refuse(too_large());
  return action::Send{&message_, original()};
}

/// If the server has found a document, or refused the command, that is the answer.
bool WriteExchange::has_found() {
  without_upsert_ = WithoutUpsert::found_nothing;
  if (!(request_.command.in_batch() ? found_nothing
                                    : FindAndModify::found_nothing)(reply_->body())) {
    given_.clear();
    facts_.forwarded.clear();
    return true;
  }
  refer_to_original();
  begin_step();
  facts_.since = patient_since_ = now_;
  facts_.assigned = given_.given.size();
  as_batch_ = has_waited_ = true;
  return false;
}

// ---- sending -----------------------------------------------------------------------------------

/// Sends the next command, or fails the write if it cannot be sent.
Action WriteExchange::send() {
  if (is_unchanged_) return send_unchanged();
  if (drawing_->is_too_large()) return refuse(too_large());
  refill(*workspace_);
  if (batch_ == nullptr && is_large_unordered()) open_batch();
  if (batch_ != nullptr) return batch_->send();
  // Those whose indexes were seen.
  if (is_bulk() || !named().empty()) {
    if (!emit_as_sequence(request_, given_, named(), workspace_->insert, message_)) {
      return refuse({ErrorCode::operation_failed,
                     "mongo-idproxy: the keys of the array in a write must be \"0\", \"1\", … "
                     "in a bulkWrite, and where a rule demands a unique index"});
    }
  } else {
    emit();
  }
  if (fits()) return action::Send{&message_, original()};
  const bool in_parts =
      acknowledged_ && request_.command.divisible(statements_) && separable(request_);
  if (in_parts) {
    open_batch();
    return batch_->send();
  }
  if (!only_keeps(*request_.plan, given_)) return refuse(too_large());
  count_too_large(*request_.plan, given_, facts_);
  return send_unchanged();
}

/// Writes the client's message with its values.
void WriteExchange::emit() {
  if (is_insert() && has_waited_) {
    GivenValues same;
    static_cast<void>(workspace_->insert.scan(request_, same));
  }
  rewrite::emit(request_, given_, workspace_->insert, message_);
}

/// The collection turned out to be a view or a time-series collection, or to have no rule; or the
/// server will refuse all documents.
Action WriteExchange::send_unchanged() {
  take_back();
  given_.clear();
  batch_.reset();
  stages_ = {};
  refer_to_original();
  facts_.assigned = facts_.refused = 0;
  count_odd(facts_);
  note_time_series();
  sent_ = true;
  message_.start(original_.view());
  message_.keep(0, original_.size());
  return action::Send{&message_, original()};
}

/// Of an insert that is sent unchanged: counts it if its collection is a time-series collection.
void WriteExchange::note_time_series() {
  const WriteCommand& command = request_.command;
  if (!is_insert() || request_.known == nullptr) return;
  const auto& rules = request_.known->time_series(command.db(), command.collection());
  if (rules == nullptr) return;
  note_past({{std::string(command.db()), std::string(command.collection())},
             ForwardReason::time_series,
             rules});
}

/// True if the write goes in several commands because of the number of its statements.
bool WriteExchange::is_large_unordered() const {
  // The reply to a bulkWrite is a cursor: no number of errors makes it too large.
  if (statements_ <= kPartStatements || !acknowledged_ || facts_.assigned == 0 || is_bulk())
    return false;
  const auto options = request_.command.divisible(statements_);
  return options && !options->ordered && !options->in_transaction && separable(request_);
}

/// Makes request_ refer to original_, because the received bytes may be gone.
void WriteExchange::refer_to_original() {
  request_.refer_to(original_.view());
}

/// Once. A batch counts the values of each of its commands.
void WriteExchange::count_sent() {
  count_odd(facts_);
  if (batch_ != nullptr) return;
  for (std::size_t i = 0; i < request_.plan->size(); ++i) {
    const std::size_t values = given_.wanted.empty() ? facts_.assigned : given_.wanted[i];
    (*request_.plan)[i].outcomes->sent(values, acknowledged_, now_);
    facts_.values_sent += values;
  }
}

// ---- after it ----------------------------------------------------------------------------------

/// True if the reply is the client's, as it nearly always is. Else there is a batch from now on.
bool WriteExchange::is_relayed() {
  if (is_unchanged_) return true;
  if (batch_ != nullptr) return false;
  const bool has_values = !given_.given.empty();  // else it only keeps some
  const bool wants_it =
      wants_results_ || (has_values && (loses_writes() || wants_reply(request_, given_)));
  if (is_empty_ && !wants_it) return true;
  open_batch();
  facts_.since = now_;
  return false;
}

void WriteExchange::open_batch() {
  refer_to_original();
  batch_ = std::make_unique<Batch>(*this);
  list_stages();
  begin_step();
}

}  // namespace idproxy::rewrite
