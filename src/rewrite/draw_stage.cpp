#include "idproxy/rewrite/draw_stage.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "idproxy/rewrite/given_values.hpp"
#include "idproxy/rewrite/write.hpp"

namespace idproxy::rewrite {
namespace {

/// How many values of each sequence are wanted.
std::vector<std::size_t> counts_of(const GivenSequences& sequences) {
  std::vector<std::size_t> counts(sequences.all.size());
  for (const std::uint32_t sequence : sequences.of_value) ++counts[sequence];
  return counts;
}

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
    counts_ = counts_of(sequences);
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

void ValueRenewal::start(std::vector<Collision> collisions,
                         const std::vector<std::size_t>& doubtful) {
  collisions_ = std::move(collisions);
  all_.clear();
  for (Collision& collision : collisions_) {
    for (const std::size_t at : collision.given) all_.emplace_back(&collision, at);
  }
  for (const std::size_t at : doubtful) all_.emplace_back(nullptr, at);
  std::ranges::sort(all_, {}, [this](const auto& each) {
    return std::tuple(given_.given[each.second].assignment, each.first == nullptr, each.second);
  });
  next_ = 0;
  asked_ = false;
  want_rule();
}

/// Moves on to the next rule that has values to renew. NumbersInTurn renews those of sequences
/// without gaps.
void ValueRenewal::want_rule() {
  const auto rule_of = [this](const auto& each) {
    return std::size_t{given_.given[each.second].assignment};
  };
  wanted_.clear();
  while (wanted_.empty() && next_ < all_.size()) {
    assignment_ = rule_of(all_[next_]);
    for (; next_ < all_.size() && rule_of(all_[next_]) == assignment_; ++next_) {
      const Collision* collision = all_[next_].first;
      if (plan_[assignment_].in_turn || (collision != nullptr && !collision->again)) continue;
      wanted_.push_back(all_[next_]);
    }
  }
  done_ = end_ = 0;
  if (wanted_.empty()) {
    assignment_ = plan_.size();
    return;
  }
  if (sources_of(given_, assignment_) > 1) {
    std::ranges::sort(wanted_, {}, [this](const auto& wanted) {
      const std::uint32_t value = given_.given[wanted.second].value;
      return std::pair(rewrite::source_of(given_, assignment_, value), wanted.second);
    });
  }
  want_next();
}

std::size_t ValueRenewal::source_of(std::size_t wanted) const {
  return rewrite::source_of(given_, assignment_, given_.given[wanted_[wanted].second].value);
}

/// Moves on to the next sequence, from done_ on.
void ValueRenewal::want_next() {
  source_ = source_of(done_);
  end_ = done_ + 1;
  while (end_ < wanted_.size() && source_of(end_) == source_) ++end_;
  count_ = end_ - done_;
}

std::optional<Need> ValueRenewal::draw() {
  while (assignment_ < plan_.size()) {
    ids::Source& source = source_at(plan_, given_, assignment_, source_);
    ids::Values& values = given_.values[assignment_];
    while (count_ > 0) {
      const std::size_t first = values.size();
      const auto drawn = source.next(count_, values);
      if (drawn) {
        renewed(first);
      } else if (drawn.needs_store()) {
        asked_ = true;
        return Need{nullptr, &plan_[assignment_], &source, count_};
      } else {
        count_ /= 2;
      }
    }
    leave_behind();
  }
  return std::nullopt;
}

void ValueRenewal::answered(ids::Result<ids::Grant> grant) {
  ids::Source& source = source_at(plan_, given_, assignment_, source_);
  ids::Values& values = given_.values[assignment_];
  const std::size_t first = values.size();
  if (grant) {
    source.accept(std::move(*grant), values);
    renewed(first);
  } else if (leave_doubtful(); source.make_do(count_, values, grant.error())) {
    renewed(first);
  } else if (grant.error().code == ids::Errc::unavailable) {
    count_ = 0;
  } else {
    count_ /= 2;
  }
}

/// Those that the store has not looked up are no better than the ones that are there.
void ValueRenewal::leave_doubtful() {
  const auto all = std::span(wanted_).subspan(done_, end_ - done_);
  const auto gone = std::ranges::remove(all, nullptr, [](const auto& each) { return each.first; });
  end_ -= gone.size();
  wanted_.erase(wanted_.begin() + static_cast<std::ptrdiff_t>(end_),
                wanted_.begin() + static_cast<std::ptrdiff_t>(end_ + gone.size()));
  count_ = std::min(count_, end_ - done_);
}

/// Gives the drawn values, from `first` on, to the next of the wanted places.
void ValueRenewal::renewed(std::size_t first) {
  if (plan_[assignment_].sequences != nullptr) {
    given_.sequences[assignment_].of_value.resize(given_.values[assignment_].size(),
                                                  static_cast<std::uint32_t>(source_));
  }
  for (std::size_t i = 0; i < count_; ++i, ++done_) {
    const std::size_t at = wanted_[done_].second;
    given_.given[at].value = static_cast<std::uint32_t>(first + i);
    taken_.renewed(at);
  }
  count_ = std::min(count_, end_ - done_);
}

/// Gives up on the places that are left of this sequence, and moves on to the next one.
void ValueRenewal::leave_behind() {
  for (; done_ < end_; ++done_) {
    Collision* collision = wanted_[done_].first;
    if (collision == nullptr) continue;
    collision->again = false;
    collision->ended_by = RetryBound::no_value;
  }
  if (done_ < wanted_.size()) return want_next();
  want_rule();
}

}  // namespace idproxy::rewrite
