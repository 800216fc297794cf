#include "app/jobs/backfill_batch.hpp"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <chrono>
#include <future>
#include <numeric>
#include <utility>

#include "app/jobs/value_text.hpp"
#include "app/system_clock.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/id_store/stored_value.hpp"
#include "idproxy/rewrite/document_fields.hpp"
#include "idproxy/rewrite/draw_stage.hpp"
#include "idproxy/rewrite/reply_merge.hpp"
#include "idproxy/rewrite/zero_value.hpp"

namespace idproxy::app::jobs {
namespace {

using id_store::mongo::Reply;
using Failure = UpdateOutcome::Failure;

constexpr std::size_t kLargestPart = 1000;
constexpr std::size_t kSmallestPart = 16;
constexpr const char* kNoConfirmation = "the servers do not confirm an update";
// The server refuses a number once a majority has the document that took it. At that moment the
// other writer sends its next document: a look at once would not see that one yet, and this process
// would lose again.
constexpr std::chrono::nanoseconds kPauseInTurn = std::chrono::milliseconds(1);
// Nanoseconds in 64 bits cover the years 1678 to 2261.
constexpr std::chrono::milliseconds kFarthest = std::chrono::hours(24) * 365 * 291;

/// A value as one text: its type and its bytes.
std::string typed(bson::Type type, Bytes value) {
  std::string text(1, static_cast<char>(type));
  return text.append(as_text(value));
}

std::string typed(const ids::Values& values, std::size_t at) {
  return typed(values.type(), values[at]);
}

/// Half of the pause is random, so that writers that collided do not collide again.
std::chrono::nanoseconds pause_in_turn() {
  constexpr auto kHalf = kPauseInTurn / 2;
  const auto more = uniform(system_random(), static_cast<std::uint64_t>(kHalf.count()));
  return kHalf + std::chrono::nanoseconds(more);
}

std::optional<std::chrono::nanoseconds> time_of(const ids::FieldValue& value) {
  if (value.is != ids::FieldValue::Is::there) return std::nullopt;
  if (value.element.type == bson::Type::object_id) {
    return std::chrono::seconds(boost::endian::load_big_u32(value.element.value.data()));
  }
  if (value.element.type != bson::Type::date) return std::nullopt;
  const std::chrono::milliseconds time(load_i64(value.element.value.data()));
  if (time > kFarthest || time < -kFarthest) return std::nullopt;
  return time;
}

/// Owns its promise, so that an answer that comes too late is dropped, and its numbers return.
class FutureGrant final : public ids::Waiter {
 public:
  [[nodiscard]] std::future<ids::Result<ids::Grant>> future() { return promise_.get_future(); }
  void answered(ids::Result<ids::Grant> grant) override { promise_.set_value(std::move(grant)); }

 private:
  std::promise<ids::Result<ids::Grant>> promise_;
};

ids::Error no_answer_in_time(const ids::StoreSource& source) {
  std::string reason = source.why_waiting();
  if (reason.empty()) reason = "the id store does not answer";
  return {ids::Errc::unavailable, std::move(reason)};
}

}  // namespace

ids::Result<ids::Grant> await_grant(ids::StoreSource& source, std::size_t n) {
  auto waiter = std::make_unique<FutureGrant>();
  auto answer = waiter->future();
  const ids::Ticket ticket = source.ask(n, std::move(waiter));
  if (answer.wait_for(source.patience()) != std::future_status::ready) {
    return no_answer_in_time(source);
  }
  return answer.get();
}

boost::system::result<std::shared_ptr<ids::Source>, std::string> sequence_of(
    const ids::Sequences& sequences, const std::string& period_from, Bytes document) {
  std::vector<ids::FieldValue> values;
  for (const std::string& field : sequences.fields()) {
    values.push_back(rewrite::field_at(document, field).value_or(ids::FieldValue{}));
  }
  if (std::string why = sequences.refusal(values); !why.empty()) return why;
  if (period_from.empty()) return sequences.sequence(values);
  const auto dated = rewrite::field_at(document, period_from).value_or(ids::FieldValue{});
  if (const auto time = time_of(dated)) return sequences.sequence_at(values, *time);
  return "field '" + period_from + "' has no date, which --period-from needs";
}

ids::Result<void> BackfillValues::draw(std::size_t count, Sequences sequences) {
  given_ = {};
  lends_ = is_prepared_ = false;
  given_.wanted.push_back(count);
  given_.values.emplace_back();
  rewrite::GivenSequences& its = given_.sequences.emplace_back();  // empty: the rule has none
  for (const auto& sequence : sequences) its.add_value(sequence);
  if (plan_.front().in_turn) return draw_in_turn(count, rewrite::source_at(plan_, given_, 0, 0));
  rewrite::DrawStage drawing(plan_, given_);
  while (const auto need = drawing.need({})) {
    const ids::Draw drawn =
        need->error ? *need->error : drawing.answered(ask(*need->source, need->count));
    if (drawn) continue;
    drawing.ended({});
    return drawn.error();
  }
  each_source(0, count, [this](ids::Source& source, auto) { lends_ = lends_ || source.lends(); });
  return {};
}

ids::Result<void> BackfillValues::draw_in_turn(std::size_t count, ids::Source& sequence) {
  const bool goes_on = std::exchange(goes_on_, false) && sequence_ == &sequence;
  if (!goes_on) {
    turn_.reset();  // ends the turn before, which the next one waits for
    turn_ = sequence.turn({});
    sequence_ = &sequence;
  }
  const auto drawn = turn_->next(count, given_.values.front());
  if (drawn) return {};
  if (!drawn.needs_store()) return drawn.error();
  auto grant = ask(*turn_, count);
  if (!grant) return grant.error();
  turn_->accept(*std::move(grant), given_.values.front());
  return {};
}

ids::Result<ids::Grant> BackfillValues::ask(ids::StoreSource& source, std::size_t count) {
  auto grant = await_grant(source, count);
  is_prepared_ = !grant && !source.why_waiting().empty();
  return grant;
}

void BackfillValues::sent() {
  if (turn_) turn_->sent();
}

void BackfillValues::answered(const UpdateOutcome& outcome) {
  if (!turn_) return;
  const bool is_known = outcome.kind == UpdateOutcome::Kind::answered &&
                        outcome.changed == outcome.tried &&
                        outcome.failure != UpdateOutcome::Failure::perhaps_stored;
  if (!is_known) return turn_->lost();
  turn_->stored(outcome.tried, ids::Durability::by_majority);
  if (outcome.failure != UpdateOutcome::Failure::duplicate) return;
  turn_->taken();
  goes_on_ = true;
}

void BackfillValues::collided(std::size_t at, std::size_t in_a_row) {
  each_source(at, at + 1, [&](ids::Source& source, auto which) {
    source.collided(all(), which, in_a_row, ids::Taken::in_batch);
  });
}

void BackfillValues::went_well(std::size_t count) {
  each_source(0, count, [](ids::Source& source, auto) {
    if (source.in_a_row()) source.went_well();
  });
}

void BackfillValues::take_back(std::size_t from, std::size_t to) {
  each_source(from, to,
              [this](ids::Source& source, auto which) { source.take_back(all(), which); });
}

/// Calls `use` for each source of these values.
void BackfillValues::each_source(std::size_t from, std::size_t to, const UseSource& use) const {
  std::vector<rewrite::Given> some;
  for (; from < to; ++from) some.push_back({0, 0, static_cast<std::uint32_t>(from)});
  for (const rewrite::FromSource& its : rewrite::by_source(plan_, given_, some)) {
    use(*its.source, its.which);
  }
}

BackfillBatch::BackfillBatch(const BackfillTarget& target, const rewrite::Plan& plan,
                             std::string period_from, const id_store::mongo::Pool& pool,
                             const StopSignals& stop, Patience& patience)
    : target_(target),
      plan_(plan),
      period_from_(std::move(period_from)),
      client_(pool.client()),
      stop_(stop),
      patience_(patience),
      part_(kLargestPart) {}

void BackfillBatch::give(std::vector<BackfillDocument> documents) {
  for (BackfillDocument& document : documents) take_in(std::move(document));
  duplicates_ = 0;
  values_.emplace(plan_);
  while (!ids_.empty() && why_ended_.empty()) {
    const std::size_t count = draw();
    if (count == 0) break;
    send(count);
  }
  values_.reset();
}

/// Notes which sequence the document belongs to, if the rule has any.
void BackfillBatch::take_in(BackfillDocument document) {
  if (const auto& sequences = plan_.front().sequences) {
    auto sequence = sequence_of(*sequences, period_from_, as_bytes(document.beside));
    if (!sequence) return note_left(sequence.error(), std::move(document.id));
    sequences_.push_back(*std::move(sequence));
  }
  ids_.push_back(std::move(document.id));
}

/// Draws values for the first documents, as far as there are values. Returns for how many; 0: none
/// is left, or it gave up.
std::size_t BackfillBatch::draw() {
  std::size_t count = most_at_once();
  while (count > 0) {
    const std::size_t sequences = sequences_.empty() ? 0 : count;
    const auto drawn = values_->draw(count, std::span(sequences_).first(sequences));
    if (drawn) return count;
    const bool exhausted = drawn.error().code == ids::Errc::exhausted;
    if (exhausted && count > 1) {
      count /= 2;  // perhaps there are some left
    } else if (exhausted && sequences > 0) {
      leave("its sequence gives no values: " + drawn.error().reason);
      count = most_at_once();
    } else if (!awaits(drawn.error())) {
      return 0;
    }
  }
  return 0;
}

/// Numbers without gaps go alone. A document may have got a value meanwhile, or be gone, and then
/// the number of the one behind it would leave a gap.
std::size_t BackfillBatch::most_at_once() const {
  return std::min(ids_.size(), in_turn() ? 1 : part_);
}

/// Waits for values. False: there will be none.
bool BackfillBatch::awaits(const ids::Error& error) {
  const bool may_come = error.code == ids::Errc::unavailable;
  if (may_come && stop_.told()) return false;
  if (may_come && values_->are_prepared()) patience_.succeeded();  // the store reads the collection
  if (may_come && patience_.rest(error.reason)) return true;
  why_ended_ = "there are no values: " + error.reason;
  return false;
}

/// True if the unique index that the rule demands is still there; else the run ends.
bool BackfillBatch::is_guarded() {
  using Kind = ids::GuardState::Kind;
  ids::Guard* guard = plan_.front().guard.get();
  if (guard == nullptr) return true;
  while (true) {
    const ids::GuardState state = guard->state(process_sources().clock.monotonic());
    uuid_ = state.uuid;
    if (state.kind == Kind::guarded) return true;
    const auto wants = state.kind == Kind::unknown ? guard->want(0) : ids::Ticket();
    if (state.kind == Kind::unknown && patience_.rest(state.error.reason)) continue;
    why_ended_ = "the collection is not guarded any more: " + state.error.reason;
    return false;
  }
}

void BackfillBatch::send(std::size_t count) {
  if (!is_guarded()) return;
  values_->sent();
  const auto outcome = update(count);
  if (!outcome) {
    why_ended_ = kNoConfirmation;
    return;
  }
  values_->answered(*outcome);
  settle(*outcome, count);
}

/// Sends the update until a server has answered it. Nothing: none does. A number of a sequence
/// without gaps is sent once: after a failover it may no longer be the next one.
std::optional<UpdateOutcome> BackfillBatch::update(std::size_t count) {
  auto command = update_of(target_, std::span(ids_).first(count), values_->all());
  if (uuid_) add_uuid(*uuid_, command);
  may_run_ = false;
  while (true) {
    const Reply reply = client_.write(target_.ns.db, command);
    const UpdateOutcome outcome = outcome_of(reply, count, target_.ns.text(), plan_);
    if (outcome.kind != UpdateOutcome::Kind::unknown) {
      patience_.succeeded();
      return outcome;
    }
    may_run_ = may_run_ || !reply.not_carried_out;
    if (!patience_.rest(kNoConfirmation + (": " + reply.message))) return std::nullopt;
    if (in_turn()) return outcome;
  }
}

void BackfillBatch::settle(const UpdateOutcome& outcome, std::size_t count) {
  if (outcome.kind == UpdateOutcome::Kind::unknown) {
    unconfirmed_.insert(typed(values_->all(), 0));
    return;
  }
  if (outcome.kind == UpdateOutcome::Kind::refused) return refused(outcome.code, count);
  if (outcome.tried > 0) duplicates_ = 0;
  if (outcome.changed >= outcome.tried) {
    for (std::size_t i = 0; i < outcome.tried; ++i) {
      note_given(values_->all().type(), values_->all()[i]);
    }
  } else {
    read_back(outcome.tried);
  }
  values_->went_well(outcome.tried);
  drop(outcome.tried);
  if (outcome.failure == Failure::none) {
    part_ = std::min(kLargestPart, 2 * part_);
    return;
  }
  // If many documents fail, each failure costs another update with all documents behind it.
  part_ = std::clamp(2 * outcome.tried, kSmallestPart, kLargestPart);
  if (outcome.failure == Failure::perhaps_stored) count_gaps(1);
  give_back(outcome.tried + (outcome.failure == Failure::denied ? 0 : 1), count);
  if (outcome.failure != Failure::duplicate) return leave(reason_of_failure(outcome.code));
  if (!tries_again(outcome.tried)) leave("each value that was tried is taken");
}

void BackfillBatch::refused(std::int32_t code, std::size_t count) {
  may_run_ = may_run_ || !rewrite::stores_nothing(code);
  give_back(0, count);
  why_ended_ =
      code == ErrorCode::collection_uuid_mismatch
          ? "the collection has been dropped, made anew or renamed"
          : "the server refuses updates of the collection (error " + std::to_string(code) + ")";
}

/// The first document's value is taken. True if it may try another one.
bool BackfillBatch::tries_again(std::size_t taken) {
  ++tally_.renewed;
  if (in_turn()) gives_way(typed(values_->all(), taken));
  values_->collided(taken, ++duplicates_);
  return duplicates_ <= plan_.front().attempts();
}

/// Another writer was quicker with this number of a sequence. Only repeated failures with the same
/// number count: a new number each time shows that others store numbers.
void BackfillBatch::gives_way(std::string number) {
  if (std::exchange(taken_, std::move(number)) != taken_) duplicates_ = 0;
  if (stop_.wait_for(pause_in_turn())) why_ended_ = StopSignals::kReason;
}

void BackfillBatch::note_given(bson::Type type, Bytes value) {
  tally_.last = value_text(type, value);
  if (tally_.given++ == 0) tally_.first = tally_.last;
}

/// Some of the first `count` documents had a value already when the update came to them, or an
/// earlier attempt had given it. Finds out which.
void BackfillBatch::read_back(std::size_t count) {
  const ids::Values& values = values_->all();
  const auto found = find(count);
  if (!found) {
    why_ended_ = "the servers do not answer";
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = found->find(ids_[i]);
    const bool is_given = value != found->end() && (value->second == typed(values, i) ||
                                                    unconfirmed_.contains(value->second));
    if (is_given) {
      note_given(values.type(), as_bytes(value->second).subspan(1));
      continue;
    }
    count_gaps(1);
    if (value == found->end()) {
      ++tally_.deleted;
    } else if (!value->second.empty()) {
      ++tally_.got_one;
    }
  }
}

std::optional<BackfillBatch::Found> BackfillBatch::find(std::size_t count) {
  const auto command = find_values(target_, std::span(ids_).first(count));
  while (true) {
    Found found;
    const Reply reply = client_.read_all(target_.ns.db, command, [&](Bytes document) {
      const auto value = id_store::find_path(document, target_.field);
      const bool has_value = value && !rewrite::replaces(target_.assign, *value);
      found[id_of(document)] = has_value ? typed(value->type, value->value) : "";
      return true;
    });
    if (reply.ok()) return found;
    if (!is_worth_repeating(reply) || !patience_.rest("the servers do not answer")) return {};
  }
}

/// The first document gets no value in this run.
void BackfillBatch::leave(const std::string& reason) {
  note_left(reason, std::move(ids_.front()));
  drop(1);
  duplicates_ = 0;
}

void BackfillBatch::note_left(const std::string& reason, BackfillId id) {
  tally_.leave(reason, as_bytes(id));
  if (failed_.size() < kMostRemembered) failed_.insert(std::move(id));
}

/// Is done with the first `count` documents.
void BackfillBatch::drop(std::size_t count) {
  const auto end = static_cast<std::ptrdiff_t>(count);
  ids_.erase(ids_.begin(), ids_.begin() + end);
  if (!sequences_.empty()) sequences_.erase(sequences_.begin(), sequences_.begin() + end);
  unconfirmed_.clear();
}

/// These values were sent, and are not stored.
void BackfillBatch::give_back(std::size_t from, std::size_t to) {
  if (from >= to) return;
  if (may_run_) return count_gaps(to - from);
  values_->take_back(from, to);
}

void BackfillBatch::count_gaps(std::size_t count) {
  if (values_->leave_gaps()) tally_.gaps += count;
}

}  // namespace idproxy::app::jobs
