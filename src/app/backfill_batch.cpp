#include "backfill_batch.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backfill_sequence.hpp"
#include "id_store/stored_value.hpp"
#include "idproxy/base/random.hpp"
#include "idproxy/rewrite/write_reply.hpp"
#include "idproxy/rewrite/zero_value.hpp"
#include "rewrite/unused_values.hpp"
#include "sources.hpp"
#include "value_text.hpp"

namespace idproxy::app {
namespace {

using id_store::mongo::Reply;
using Failure = UpdateOutcome::Failure;

constexpr std::size_t kLargestPart = 1000;
constexpr std::size_t kSmallestPart = 16;
constexpr const char* kNoConfirmation = "the servers do not confirm an update";
// The server refuses a number when a majority has the document that took it, and so at the moment
// in which the next one of that writer sets out. Whoever looks at once does not see that one yet,
// and loses again.
constexpr std::chrono::nanoseconds kPauseInTurn = std::chrono::milliseconds(1);

/// A value as one text: its type and its bytes.
std::string typed(bson::Type type, Bytes value) {
  std::string text(1, static_cast<char>(type));
  return text.append(as_text(value));
}

std::string typed(const ids::Values& values, std::size_t at) {
  return typed(values.type(), values[at]);
}

/// Half of it is random, so that writers that met do not meet again.
std::chrono::nanoseconds pause_in_turn() {
  constexpr auto kHalf = kPauseInTurn / 2;
  const auto more = uniform(system_random(), static_cast<std::uint64_t>(kHalf.count()));
  return kHalf + std::chrono::nanoseconds(more);
}

}  // namespace

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
  BackfillValues values(plan_);
  while (!ids_.empty() && why_ended_.empty()) {
    const std::size_t count = draw(values);
    if (count == 0) return;
    send(count, values);
  }
}

/// Notes which sequence the document belongs to, if the rule has any.
void BackfillBatch::take_in(BackfillDocument document) {
  if (ids::Sequences* sequences = plan_.front().sequences) {
    auto sequence = sequence_of(*sequences, period_from_, as_bytes(document.beside));
    if (!sequence) return note_left(sequence.error(), std::move(document.id));
    sequences_.push_back(*std::move(sequence));
  }
  ids_.push_back(std::move(document.id));
}

/// Draws values for the first documents, as far as there are values. Returns for how many; 0: none
/// is left, or it gave up.
std::size_t BackfillBatch::draw(BackfillValues& values) {
  std::size_t count = most_at_once(values);
  while (count > 0) {
    const std::size_t sequences = sequences_.empty() ? 0 : count;
    const auto drawn = values.draw(count, std::span(sequences_).first(sequences));
    if (drawn) return count;
    const bool exhausted = drawn.error().code == ids::Errc::exhausted;
    if (exhausted && count > 1) {
      count /= 2;  // perhaps there are some left
    } else if (exhausted && sequences > 0) {
      leave("its sequence gives no values: " + drawn.error().reason);
      count = most_at_once(values);
    } else if (!awaits(drawn.error(), values)) {
      return 0;
    }
  }
  return 0;
}

std::size_t BackfillBatch::most_at_once(const BackfillValues& values) const {
  return std::min({ids_.size(), part_, values.most()});
}

/// Waits for values. False: there will be none.
bool BackfillBatch::awaits(const ids::Error& error, const BackfillValues& values) {
  const bool may_come = error.code == ids::Errc::unavailable;
  if (may_come && stop_.told()) return false;
  if (may_come && values.are_prepared()) patience_.succeeded();  // the store reads the collection
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
    const auto wants = state.kind == Kind::unknown ? guard->want() : ids::Ticket();
    if (state.kind == Kind::unknown && patience_.rest(state.error.reason)) continue;
    why_ended_ = "the collection is not guarded any more: " + state.error.reason;
    return false;
  }
}

void BackfillBatch::send(std::size_t count, BackfillValues& values) {
  if (!is_guarded()) return;
  values.sent();
  const auto outcome = update(count, values.all());
  if (!outcome) {
    why_ended_ = kNoConfirmation;
    return;
  }
  values.answered(*outcome);
  settle(*outcome, count, values);
}

/// Sends the update until a server has answered it. Nothing: none does. A number of a sequence
/// without gaps is sent once: after a failover it may no longer be the next one.
std::optional<UpdateOutcome> BackfillBatch::update(std::size_t count, const ids::Values& values) {
  auto command = update_of(target_, std::span(ids_).first(count), values);
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

void BackfillBatch::settle(const UpdateOutcome& outcome, std::size_t count,
                           BackfillValues& values) {
  if (outcome.kind == UpdateOutcome::Kind::unknown) {
    unconfirmed_.insert(typed(values.all(), 0));
    return;
  }
  if (outcome.kind == UpdateOutcome::Kind::refused) return refused(outcome.code, count, values);
  if (outcome.tried > 0) duplicates_ = 0;
  if (outcome.changed >= outcome.tried) {
    for (std::size_t i = 0; i < outcome.tried; ++i) {
      note_given(values.all().type(), values.all()[i]);
    }
  } else {
    read_back(outcome.tried, values);
  }
  values.went_well(outcome.tried);
  drop(outcome.tried);
  if (outcome.failure == Failure::none) {
    part_ = std::min(kLargestPart, 2 * part_);
    return;
  }
  // Where many documents fail, each failure costs an update of all that follow.
  part_ = std::clamp(2 * outcome.tried, kSmallestPart, kLargestPart);
  if (outcome.failure == Failure::perhaps_stored) count_gaps(1, values);
  give_back(values, outcome.tried + (outcome.failure == Failure::denied ? 0 : 1), count);
  if (outcome.failure != Failure::duplicate) return leave(reason_of_failure(outcome.code));
  if (!tries_again(outcome.tried, values)) leave("each value that was tried is taken");
}

void BackfillBatch::refused(std::int32_t code, std::size_t count, BackfillValues& values) {
  may_run_ = may_run_ || !rewrite::stores_nothing(code);
  give_back(values, 0, count);
  why_ended_ =
      code == rewrite::kCollectionUuidMismatch
          ? "the collection has been dropped, made anew or renamed"
          : "the server refuses updates of the collection (error " + std::to_string(code) + ")";
}

/// The first document's value is taken. True if it may try another one.
bool BackfillBatch::tries_again(std::size_t taken, BackfillValues& values) {
  ++tally_.renewed;
  if (in_turn()) gives_way(typed(values.all(), taken));
  values.collided(taken, ++duplicates_);
  return duplicates_ <= plan_.front().attempts();
}

/// Somebody was quicker with this number of a sequence. That goes on for as long as others store
/// the numbers; if it is the same one again, nobody does.
void BackfillBatch::gives_way(std::string number) {
  if (std::exchange(taken_, std::move(number)) != taken_) duplicates_ = 0;
  if (stop_.wait_for(pause_in_turn())) why_ended_ = StopSignals::kReason;
}

bool BackfillBatch::in_turn() const {
  return plan_.front().strategy->in_turn();
}

void BackfillBatch::note_given(bson::Type type, Bytes value) {
  tally_.last = value_text(type, value);
  if (tally_.given++ == 0) tally_.first = tally_.last;
}

/// Some of the first `count` documents had a value already when the update came to them, or an
/// earlier attempt had given it. Finds out which.
void BackfillBatch::read_back(std::size_t count, const BackfillValues& drawn) {
  const ids::Values& values = drawn.all();
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
    count_gaps(1, drawn);
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
void BackfillBatch::give_back(BackfillValues& values, std::size_t from, std::size_t to) {
  if (from >= to) return;
  if (may_run_) return count_gaps(to - from, values);
  values.take_back(from, to);
}

void BackfillBatch::count_gaps(std::size_t count, const BackfillValues& values) {
  if (values.leave_gaps()) tally_.gaps += count;
}

}  // namespace idproxy::app
