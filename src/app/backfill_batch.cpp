#include "backfill_batch.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "awaited_values.hpp"
#include "id_store/stored_value.hpp"
#include "idproxy/bson/builder.hpp"
#include "rewrite/unused_values.hpp"
#include "value_text.hpp"

namespace idproxy::app {
namespace {

using id_store::mongo::Reply;
using Failure = UpdateOutcome::Failure;

constexpr std::size_t kLargestPart = 1000;
constexpr std::size_t kSmallestPart = 16;
constexpr const char* kNoConfirmation = "the servers do not confirm an update";

/// A value as one text: its type and its bytes.
std::string typed(bson::Type type, Bytes value) {
  std::string text(1, static_cast<char>(type));
  return text.append(as_text(value));
}

/// {_id: …} of a document.
BackfillId id_of(Bytes document) {
  const auto id = bson::find(document, "_id");
  if (!id) return {};
  Buffer bytes;
  bson::Scope scope(bytes);
  bson::append_copy(bytes, *id);
  scope.close();
  return BackfillId(as_text(bytes.view()));
}

}  // namespace

BackfillBatch::BackfillBatch(const BackfillTarget& target, const rewrite::Plan& plan,
                             const id_store::mongo::Pool& pool, const StopSignals& stop,
                             Patience& patience)
    : target_(target),
      plan_(plan),
      strategy_(*plan.front().strategy),
      client_(pool.client()),
      stop_(stop),
      patience_(patience),
      part_(kLargestPart) {}

void BackfillBatch::give(std::vector<BackfillId> ids) {
  ids_ = std::move(ids);
  duplicates_ = 0;
  while (!ids_.empty() && why_ended_.empty()) {
    ids::Values values;
    const std::size_t count = draw(values);
    if (count == 0) return;
    send(count, values);
  }
}

/// Draws values for the first documents, as far as there are values. Returns for how many; 0: it
/// gave up.
std::size_t BackfillBatch::draw(ids::Values& values) {
  std::size_t count = std::min(ids_.size(), part_);
  while (true) {
    const auto drawn = await_values(strategy_, count, values);
    if (drawn) return count;
    values.clear();
    if (drawn.error().code == ids::Errc::exhausted && count > 1) {
      count /= 2;  // perhaps there are some left
    } else if (!awaits(drawn.error())) {
      return 0;
    }
  }
}

/// Waits for values. False: there will be none.
bool BackfillBatch::awaits(const ids::Error& error) {
  const bool may_come = error.code == ids::Errc::unavailable;
  if (may_come && stop_.told()) return false;
  const ids::StoreBacked* store_backed = strategy_.store_backed();
  const bool is_prepared = store_backed != nullptr && !store_backed->why_waiting().empty();
  if (may_come && is_prepared) patience_.succeeded();  // the store reads the collection
  if (may_come && patience_.rest(error.reason)) return true;
  why_ended_ = "there are no values: " + error.reason;
  return false;
}

void BackfillBatch::send(std::size_t count, const ids::Values& values) {
  const auto outcome = update(count, values);
  if (outcome) return settle(*outcome, count, values);
  why_ended_ = kNoConfirmation;
}

/// Sends the update until a server has answered it. Nothing: none does.
std::optional<UpdateOutcome> BackfillBatch::update(std::size_t count, const ids::Values& values) {
  const auto command = update_of(target_, std::span(ids_).first(count), values);
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
  }
}

void BackfillBatch::settle(const UpdateOutcome& outcome, std::size_t count,
                           const ids::Values& values) {
  if (outcome.kind == UpdateOutcome::Kind::refused) return refused(outcome.code, count, values);
  if (outcome.tried > 0) duplicates_ = 0;
  if (outcome.changed >= outcome.tried) {
    for (std::size_t i = 0; i < outcome.tried; ++i) note_given(i, values);
  } else {
    read_back(outcome.tried, values);
  }
  if (outcome.tried > 0) went_well();
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(outcome.tried));
  if (outcome.failure == Failure::none) {
    part_ = std::min(kLargestPart, 2 * part_);
    return;
  }
  // Where many documents fail, each failure costs an update of all that follow.
  part_ = std::clamp(2 * outcome.tried, kSmallestPart, kLargestPart);
  if (outcome.failure == Failure::perhaps_stored) count_gaps(1);
  give_back(values, outcome.tried + (outcome.failure == Failure::denied ? 0 : 1), count);
  if (outcome.failure != Failure::duplicate) return leave(reason_of_failure(outcome.code));
  if (!tries_again(outcome.tried, values)) leave("each value that was tried is taken");
}

void BackfillBatch::refused(std::int32_t code, std::size_t count, const ids::Values& values) {
  may_run_ = may_run_ || !rewrite::stores_nothing(code);
  give_back(values, 0, count);
  why_ended_ = "the server refuses updates of the collection (error " + std::to_string(code) + ")";
}

/// The first document's value is taken. True if it may try another one.
bool BackfillBatch::tries_again(std::size_t taken, const ids::Values& values) {
  ++tally_.renewed;
  ++duplicates_;
  const std::uint32_t which[] = {static_cast<std::uint32_t>(taken)};
  if (auto* observer = strategy_.duplicate_observer()) {
    observer->collided(values, which, duplicates_, ids::Taken::in_batch);
  }
  return duplicates_ <= plan_.front().attempts();
}

void BackfillBatch::note_given(std::size_t at, const ids::Values& values) {
  if (tally_.given++ == 0) tally_.first = value_text(values.type(), values[at]);
  tally_.last = value_text(values.type(), values[at]);
}

void BackfillBatch::went_well() const {
  auto* observer = strategy_.duplicate_observer();
  if (observer != nullptr && observer->in_a_row()) observer->went_well();
}

/// Some of the first `count` documents had a value already when the update came to them, or an
/// earlier attempt had given it. Finds out which.
void BackfillBatch::read_back(std::size_t count, const ids::Values& values) {
  const auto found = find(count);
  if (!found) {
    why_ended_ = "the servers do not answer";
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = found->find(ids_[i]);
    if (value != found->end() && value->second == typed(values.type(), values[i])) {
      note_given(i, values);
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
  const bool null_is_none = target_.lacks == BackfillTarget::Lacks::field_or_value;
  while (true) {
    Found found;
    const Reply reply = client_.read_all(target_.ns.db, command, [&](Bytes document) {
      const auto value = id_store::find_path(document, target_.field);
      const bool has_value = value && !(null_is_none && value->type == bson::Type::null);
      found[id_of(document)] = has_value ? typed(value->type, value->value) : "";
      return true;
    });
    if (reply.ok()) return found;
    if (!is_worth_repeating(reply) || !patience_.rest("the servers do not answer")) return {};
  }
}

/// The first document gets no value in this run.
void BackfillBatch::leave(const std::string& reason) {
  tally_.leave(reason, as_bytes(ids_.front()));
  if (failed_.size() < kMostRemembered) failed_.insert(std::move(ids_.front()));
  ids_.erase(ids_.begin());
  duplicates_ = 0;
}

/// These values were sent, and are not stored.
void BackfillBatch::give_back(const ids::Values& values, std::size_t from, std::size_t to) {
  ids::StoreBacked* store_backed = strategy_.store_backed();
  if (store_backed == nullptr || from >= to) return;
  if (may_run_) return count_gaps(to - from);
  std::vector<std::uint32_t> which(to - from);
  std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(from));
  store_backed->take_back(values, which);
}

void BackfillBatch::count_gaps(std::size_t count) {
  if (strategy_.store_backed() != nullptr) tally_.gaps += count;
}

}  // namespace idproxy::app
