#include "app/backfill_values.hpp"

#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "app/awaited_grant.hpp"
#include "idproxy/rewrite/drawing.hpp"
#include "idproxy/rewrite/sources.hpp"

namespace idproxy::app {

/// A document may have got a value meanwhile, or be gone, and then the number of the one behind it
/// would leave a gap.
std::size_t BackfillValues::most() const {
  const bool in_turn = plan_.front().strategy->in_turn();
  return in_turn ? 1 : std::numeric_limits<std::size_t>::max();
}

ids::Result<void> BackfillValues::draw(std::size_t count, Sequences sequences) {
  given_ = {};
  lends_ = is_prepared_ = false;
  given_.wanted.push_back(count);
  given_.values.emplace_back();
  if (plan_.front().strategy->in_turn()) {
    ids::Strategy& source = sequences.empty() ? *plan_.front().strategy : *sequences.front();
    return draw_in_turn(count, *source.sequenced());
  }
  if (!sequences.empty()) choose(sequences);
  rewrite::Drawing drawing;
  while (!drawing.is_done(plan_, given_)) {
    const auto drawn = drawing.draw(plan_, given_);
    if (drawn) continue;
    if (!drawn.needs_store()) {
      drawing.take_back(given_);
      return drawn.error();
    }
    const auto need = drawing.need(plan_, given_);
    const auto answered = drawing.answered(ask(*need.source, need.count), plan_, given_);
    if (answered) continue;
    drawing.take_back(given_);
    return answered.error();
  }
  each_source(0, count, [this](ids::Strategy& source, auto) {
    lends_ = lends_ || source.store_backed() != nullptr;
  });
  return {};
}

ids::Result<void> BackfillValues::draw_in_turn(std::size_t count, ids::Sequenced& sequence) {
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

/// Notes which sequence each value comes from.
void BackfillValues::choose(Sequences sequences) {
  rewrite::GivenSequences& its = given_.sequences.emplace_back();
  std::unordered_map<const ids::Strategy*, std::uint32_t> known;
  for (const auto& sequence : sequences) {
    const auto next = static_cast<std::uint32_t>(its.all.size());
    const auto [at, is_new] = known.emplace(sequence.get(), next);
    if (is_new) its.all.push_back(sequence);
    its.of_value.push_back(at->second);
  }
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
  each_source(at, at + 1, [&](ids::Strategy& source, auto which) {
    if (auto* observer = source.duplicate_observer()) {
      observer->collided(all(), which, in_a_row, ids::Taken::in_batch);
    }
  });
}

void BackfillValues::went_well(std::size_t count) {
  each_source(0, count, [](ids::Strategy& source, auto) {
    auto* observer = source.duplicate_observer();
    if (observer != nullptr && observer->in_a_row()) observer->went_well();
  });
}

void BackfillValues::take_back(std::size_t from, std::size_t to) {
  each_source(from, to, [this](ids::Strategy& source, auto which) {
    if (auto* lender = source.store_backed()) lender->take_back(all(), which);
  });
}

/// Calls `use` for each source of these values.
void BackfillValues::each_source(std::size_t from, std::size_t to, const Use& use) const {
  if (from >= to) return;
  std::vector<std::uint32_t> which(to - from);
  std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(from));
  rewrite::by_source(plan_, given_, 0, std::move(which), use);
}

}  // namespace idproxy::app
