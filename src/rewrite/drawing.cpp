#include "idproxy/rewrite/drawing.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "idproxy/rewrite/write_values.hpp"

namespace idproxy::rewrite {

bool Drawing::is_done(const Plan& plan, const GivenValues& given) {
  for (; assignment_ < plan.size(); ++assignment_) {
    if (given.wanted[assignment_] > 0 && !plan[assignment_].in_turn) break;
  }
  return assignment_ == plan.size();
}

ids::Draw Drawing::draw(const Plan& plan, GivenValues& given) {
  const Assignment& target = plan[assignment_];
  ids::Values& values = given.values[assignment_];
  if (target.sequences == nullptr) {
    auto drawn = rewrite::draw(target, given.wanted[assignment_], values);
    if (drawn) {
      go_on();
    } else if (!drawn.needs_store()) {
      values.clear();
    }
    return drawn;
  }
  if (target.not_ready) return *target.not_ready;
  const GivenSequences& sequences = given.sequences[assignment_];
  if (counts_.empty()) count(sequences);
  for (; sequence_ < counts_.size(); ++sequence_) {
    const auto drawn = sequences.all[sequence_]->next(counts_[sequence_], parts_[sequence_]);
    if (!drawn) return drawn;
  }
  merge(sequences, values);
  go_on();
  return {};
}

void Drawing::count(const GivenSequences& sequences) {
  counts_.assign(sequences.all.size(), 0);
  for (const std::uint32_t sequence : sequences.of_value) ++counts_[sequence];
  parts_.resize(sequences.all.size());
}

/// Puts the values in the order of their documents.
void Drawing::merge(const GivenSequences& sequences, ids::Values& out) {
  std::vector<std::size_t> used(parts_.size());
  for (const std::uint32_t sequence : sequences.of_value) {
    const ids::Values& part = parts_[sequence];
    const Bytes value = part[used[sequence]++];
    std::memcpy(out.add(part.type(), value.size()), value.data(), value.size());
  }
}

void Drawing::go_on() {
  ++assignment_;
  sequence_ = 0;
  counts_.clear();
  parts_.clear();
}

Need Drawing::need(const Plan& plan, const GivenValues& given) const {
  const Assignment& target = plan[assignment_];
  if (target.sequences == nullptr) {
    return {&target, target.source.get(), given.wanted[assignment_]};
  }
  return {&target, given.sequences[assignment_].all[sequence_].get(), counts_[sequence_]};
}

ids::Draw Drawing::answered(ids::Result<ids::Grant> grant, const Plan& plan, GivenValues& given) {
  const Need asked = need(plan, given);
  const bool is_one = plan[assignment_].sequences == nullptr;
  ids::Values& out = is_one ? given.values[assignment_] : parts_[sequence_];
  if (grant) {
    asked.source->accept(std::move(*grant), out);
  } else if (auto drawn = asked.source->make_do(asked.count, out, grant.error()); !drawn) {
    return drawn;
  }
  is_one ? go_on() : static_cast<void>(++sequence_);
  return {};
}

void Drawing::take_back(const GivenValues& given) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].size() == 0) continue;
    std::vector<std::uint32_t> all(parts_[i].size());
    std::iota(all.begin(), all.end(), 0U);
    given.sequences[assignment_].all[i]->take_back(parts_[i], all);
  }
  parts_.clear();
}

std::size_t Drawing::bytes() const {
  return std::accumulate(
      parts_.begin(), parts_.end(), std::size_t{0},
      [](std::size_t sum, const ids::Values& part) { return sum + part.bytes(); });
}

}  // namespace idproxy::rewrite
