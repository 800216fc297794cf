#include "idproxy/rewrite/draw_stage.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {
namespace {

/// Puts the values of each sequence in the order of their documents.
void merge(const GivenSequences& sequences, std::span<const ids::Values> parts, ids::Values& out) {
  std::vector<std::size_t> used(parts.size());
  for (const std::uint32_t sequence : sequences.of_value) {
    const ids::Values& part = parts[sequence];
    const Bytes value = part[used[sequence]++];
    std::memcpy(out.add(part.type(), value.size()), value.data(), value.size());
  }
}

}  // namespace

/// Many rules on many documents can exceed the limit, which is checked before memory is spent on
/// writing the message.
std::optional<Need> DrawStage::need(const Moment& moment) {
  for (;;) {
    is_too_large_ = has_too_many_bytes();
    if (is_too_large_ || is_done()) return std::nullopt;
    const Assignment& assignment = plan_[assignment_];
    const auto drawn = draw();
    if (drawn) continue;
    if (!drawn.needs_store()) {
      return Need{.stage = this, .assignment = &assignment, .error = drawn.error()};
    }
    Need need = asked();
    need.patience = need.source->patience() - (moment.now - moment.patient_since);
    return need;
  }
}

/// A bulkWrite may have thousands of rules: those that are drawn are added up once.
bool DrawStage::has_too_many_bytes() {
  for (; counted_ < assignment_; ++counted_) size_ += given_.values[counted_].bytes();
  return std::accumulate(parts_.begin(), parts_.end(), size_,
                         [](auto sum, const ids::Values& part) { return sum + part.bytes(); }) >
         kMostWithIds;
}

/// True once all rules are done. Skips those that want nothing.
bool DrawStage::is_done() {
  for (; assignment_ < plan_.size(); ++assignment_) {
    if (given_.wanted[assignment_] > 0 && !plan_[assignment_].in_turn) break;
  }
  return assignment_ == plan_.size();
}

/// Draws all missing values of the rule at hand, and goes on to the next rule. Returns what
/// prevents that, if anything does.
ids::Draw DrawStage::draw() {
  const Assignment& target = plan_[assignment_];
  if (target.not_ready) return *target.not_ready;
  ids::Values& values = given_.values[assignment_];
  if (target.sequences == nullptr) {
    auto drawn = target.source->next(given_.wanted[assignment_], values);
    if (drawn) {
      go_on();
    } else if (!drawn.needs_store()) {
      values.clear();
    }
    return drawn;
  }
  const GivenSequences& sequences = given_.sequences[assignment_];
  if (counts_.empty()) {
    counts_ = sequences.counts();
    parts_.resize(counts_.size());
  }
  for (; sequence_ < counts_.size(); ++sequence_) {
    if (sequence_ < wanted_.size()) wanted_[sequence_] = {};
    const auto drawn = sequences.all[sequence_]->next(counts_[sequence_], parts_[sequence_]);
    if (drawn) continue;
    const ids::SequenceOptions& options = target.rule->strategy->about().sequences;
    // With another text, a sequence has the same counter: its numbers keep the documents' order.
    const bool has_counters = !options.text || options.text->fields().empty();
    if (has_counters && drawn.needs_store() && sequence_ >= wanted_.size()) want_all(sequences);
    return drawn;
  }
  merge(sequences, parts_, values);
  go_on();
  return {};
}

/// Has the store prepare the values of all sequences that are left at the same time, or of many of
/// them, first those of the one at hand. These the write asks for itself: two that wait for them
/// would get different ones.
void DrawStage::want_all(const GivenSequences& sequences) {
  constexpr std::size_t kAtOnce = 1024;
  wanted_.resize(std::min(counts_.size(), sequence_ + 1 + kAtOnce));
  for (std::size_t i = sequence_; i < wanted_.size(); ++i) {
    wanted_[i] = sequences.all[i]->want(counts_[i]);
  }
  wanted_[sequence_] = {};
}

ids::Error with_progress(ids::Error why, bool has_some) {
  if (!has_some || why.reason != ids::kNotInTime) return why;
  why.reason =
      "it needs numbers of many sequences, and only those of some were there in time: send it "
      "again, or fewer at once";
  return why;
}

void DrawStage::go_on() {
  ++assignment_;
  sequence_ = 0;
  counts_.clear();
  parts_.clear();
  wanted_.clear();
  granted_ = 0;
}

/// The request to the store after Draw::need().
Need DrawStage::asked() {
  const Assignment& target = plan_[assignment_];
  if (target.sequences == nullptr) {
    return {this, &target, target.source.get(), given_.wanted[assignment_]};
  }
  return {this, &target, given_.sequences[assignment_].all[sequence_].get(), counts_[sequence_]};
}

std::optional<End> DrawStage::accept(const Answer& answer) {
  const auto drawn = answered(*std::move(answer.grant));
  return drawn ? std::nullopt : std::optional<End>(drawn.error());
}

ids::Draw DrawStage::answered(ids::Result<ids::Grant> grant) {
  const Need need = asked();
  const bool is_one = plan_[assignment_].sequences == nullptr;
  ids::Values& out = is_one ? given_.values[assignment_] : parts_[sequence_];
  if (grant) {
    need.source->accept(std::move(*grant), out);
    ++granted_;
  } else if (auto drawn = need.source->make_do(need.count, out, grant.error()); !drawn) {
    return is_one ? drawn : ids::Draw(with_progress(drawn.error(), granted_ > 0));
  }
  is_one ? go_on() : static_cast<void>(++sequence_);
  return {};
}

void DrawStage::ended(const std::function<bool(std::int32_t)>& /*is_unstored*/) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].size() == 0) continue;
    std::vector<std::uint32_t> all(parts_[i].size());
    std::iota(all.begin(), all.end(), 0U);
    given_.sequences[assignment_].all[i]->take_back(parts_[i], all);
  }
  parts_.clear();
}

}  // namespace idproxy::rewrite
